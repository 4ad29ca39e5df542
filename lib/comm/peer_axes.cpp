#include "comm/peer_axes.h"

#include "base/at.h"
#include "base/text.h"

namespace gptrain {
namespace {

bool lies_inside_nodes(Axis axis, const MeshShape& shape, std::span<const std::string> nodes) {
    for (std::int64_t rank = 0; rank < shape.size(); ++rank) {
        const RankGroup group = group_on(axis, rank, shape);
        if (group.size < 2 || group.size > most_peers) return false;
        if (at(nodes, rank) != at(nodes, group.id)) return false;
    }
    return true;
}

/// True for axes that send no messages.
bool is_silent(Axis axis, const MeshShape& shape) {
    return axis == Axis::dp || axis == Axis::tokens ||
           (axis == Axis::expert_copies && shape.expert == 1) ||
           (axis == Axis::shard_copies && shape.shard == 1);
}

/// "tp, cp and dp".
std::string listed(const std::vector<Axis>& list) {
    std::string words;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (i > 0) words += i + 1 < list.size() ? ", " : " and ";
        words += name_of(list[i]);
    }
    return words;
}

}  // namespace

PeerAxes axes_inside_nodes(const MeshShape& shape, std::span<const std::string> nodes) {
    PeerAxes inside;
    for (int index = 0; index < axes; ++index) {
        const auto axis = static_cast<Axis>(index);
        if (!is_silent(axis, shape) && lies_inside_nodes(axis, shape, nodes))
            inside.push_back(axis);
    }
    return inside;
}

std::string messages_line(const std::vector<Axis>& connected, const PeerAxes& peer,
                          const std::string& nccl) {
    std::vector<Axis> copied = connected;
    std::erase_if(copied, [&](Axis axis) { return !contains(peer, axis); });
    std::vector<Axis> others = connected;
    std::erase_if(others, [&](Axis axis) { return contains(peer, axis); });
    std::string line = "messages: ";
    if (!copied.empty()) line += listed(copied) + " by copies between GPUs";
    if (!others.empty())
        append(line, text(copied.empty() ? "" : ", ", listed(others), " over NCCL ", nccl));
    return line;
}

}  // namespace gptrain
