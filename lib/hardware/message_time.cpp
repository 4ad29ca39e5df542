#include "hardware/message_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/checked.h"
#include "hardware/measured_time.h"

namespace gptrain {
namespace {

/// The places that differ on the axes that a group spans, on each below its size.
std::vector<MeshPlace> places_over(Axis axis, const MeshShape& sizes) {
    const std::vector<Axis> spanned = spanned_axes(axis);
    std::vector<MeshPlace> places = {{}};
    for (const MeshAxis& each : mesh_axes) {
        if (std::find(spanned.begin(), spanned.end(), each.axis) == spanned.end()) continue;
        const std::size_t before = places.size();
        for (std::int64_t index = 1; index < sizes.*each.size; ++index) {
            for (std::size_t i = 0; i < before; ++i) {
                places.push_back(places[i]);
                places.back().*each.index = narrow<int>(index);
            }
        }
    }
    return places;
}

/// World ranks of the group of rank 0.
std::vector<std::int64_t> first_group(Axis axis, const MeshShape& mesh, std::int64_t kv_sharers) {
    MeshShape sizes = mesh;
    if (axis == Axis::kv) sizes.tensor = kv_sharers;
    std::vector<std::int64_t> ranks;
    for (const MeshPlace& place : places_over(axis, sizes)) {
        const bool at_end = place.pp == 0 || place.pp == mesh.pipeline - 1;
        if (axis != Axis::embedding_ends || at_end) ranks.push_back(rank_of(place, mesh));
    }
    return ranks;
}

/// A step of a ring or tree costs the latency of the slowest link that it uses.
struct Path {
    double bandwidth;
    double latency;
};

Path path_of(const NodeProfile& node, const GroupLayout& group) {
    if (group.nodes() == 1) return {node.link.bandwidth, node.link.latency};
    if (!node.network) {
        fail(ExitCode::usage, "hardware: more ranks than the profile's node.devices (",
             node.devices, ") need node.network");
    }
    const double cards = static_cast<double>(node.cards) * static_cast<double>(group.per_node) /
                         static_cast<double>(node.devices);
    const double network = node.network->bandwidth * std::max(cards, 1.0 / 64);
    const double own = group.per_node == 1 ? network : std::min(network, node.link.bandwidth);
    return {own, node.network->latency};
}

}  // namespace

GroupLayout group_layout(Axis axis, const MeshShape& mesh, std::int64_t kv_sharers,
                         std::int64_t devices_per_node) {
    const std::vector<std::int64_t> ranks = first_group(axis, mesh, kv_sharers);
    std::map<std::int64_t, std::int64_t> on_node;
    GroupLayout layout = {.size = std::ssize(ranks)};
    for (const std::int64_t rank : ranks)
        layout.per_node = std::max(layout.per_node, ++on_node[rank / devices_per_node]);
    return layout;
}

double bandwidth_of(const NodeProfile& node, const GroupLayout& group) {
    return path_of(node, group).bandwidth;
}

double message_seconds(const NodeProfile& node, const GroupLayout& group,
                       std::string_view operation, double sent, bool only_rings) {
    if (group.nodes() == 1) {
        const auto measured =
            measured_message_seconds(node.link.measured, operation, group.size, sent);
        if (measured) return *measured;
    }
    const Path path = path_of(node, group);
    const bool pairwise = operation == "send" || operation == "recv" || operation == "send_recv";
    if (pairwise) return path.latency + sent / path.bandwidth;
    const auto ranks = static_cast<double>(group.size);
    const auto nodes = static_cast<double>(group.nodes());
    const double rounds = operation == "all_reduce" ? 2 : 1;
    const double inner = nodes > 1 ? node.link.latency : path.latency;
    const double ring_latency = rounds * ((nodes - 1) * path.latency + (ranks - nodes) * inner);
    const double tree_latency = rounds * (std::ceil(std::log2(nodes)) * path.latency +
                                          std::ceil(std::log2(ranks / nodes)) * inner);
    if (only_rings) return ring_latency + sent / path.bandwidth;
    const LinkProfile& link = nodes > 1 ? *node.network : node.link;
    const double seconds = sent / path.bandwidth * (operation == "all_reduce" ? link.reduction : 1);
    return std::min(ring_latency + seconds, tree_latency + 2 * seconds);
}

}  // namespace gptrain
