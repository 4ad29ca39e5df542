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

bool is_between_two(std::string_view operation) {
    return operation == "send" || operation == "recv" || operation == "send_recv";
}

/// Bytes per second of the network cards nearest to so many ranks of a node.
double network_bandwidth(const NodeProfile& node, std::int64_t ranks) {
    if (!node.network) {
        fail(ExitCode::usage, "hardware: more ranks than the profile's node.devices (",
             node.devices, ") need node.network");
    }
    const double cards = static_cast<double>(node.cards) * static_cast<double>(ranks) /
                         static_cast<double>(node.devices);
    return node.network->bandwidth * std::max(cards, 1.0 / 64);
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

double bandwidth_of(const NodeProfile& node, const GroupLayout& group, std::string_view operation) {
    if (group.nodes() == 1) return node.link.bandwidth;
    const double own = network_bandwidth(node, 1);
    if (group.per_node == 1) return own;
    if (operation == "all_to_all") {
        // Equal parts to all other ranks, over link and network at the same time.
        const auto inside = static_cast<double>(group.per_node - 1);
        const auto outside = static_cast<double>(group.size - group.per_node);
        return (inside + outside) / std::max(inside / node.link.bandwidth, outside / own);
    }
    const double network =
        is_between_two(operation) ? own : network_bandwidth(node, group.per_node);
    return std::min(network, node.link.bandwidth);
}

double message_seconds(const NodeProfile& node, const GroupLayout& group,
                       std::string_view operation, double sent, bool only_rings) {
    if (group.nodes() == 1) {
        const auto measured =
            measured_message_seconds(node.link.measured, operation, group.size, sent);
        if (measured) return *measured;
    }
    const double bandwidth = bandwidth_of(node, group, operation);
    // A step of a ring or tree costs the latency of the slowest link that it uses.
    const LinkProfile& link = group.nodes() > 1 ? *node.network : node.link;
    if (is_between_two(operation)) return link.latency + sent / bandwidth;
    const auto ranks = static_cast<double>(group.size);
    const auto nodes = static_cast<double>(group.nodes());
    const double rounds = operation == "all_reduce" ? 2 : 1;
    const double inner = node.link.latency;
    const double ring_latency = rounds * ((nodes - 1) * link.latency + (ranks - nodes) * inner);
    if (only_rings || operation == "all_to_all") return ring_latency + sent / bandwidth;
    const double tree_latency = rounds * (std::ceil(std::log2(nodes)) * link.latency +
                                          std::ceil(std::log2(ranks / nodes)) * inner);
    const double seconds = sent / bandwidth * (operation == "all_reduce" ? link.reduction : 1);
    return std::min(ring_latency + seconds, tree_latency + 2 * seconds);
}

}  // namespace gptrain
