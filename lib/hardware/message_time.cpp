#include "hardware/message_time.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "comm/message_blocks.h"
#include "comm/peer_limits.h"
#include "hardware/measured_time.h"

namespace gptrain {
namespace {

/// World ranks of the group of rank 0, ascending.
std::vector<std::int64_t> first_group(Axis axis, const std::vector<RankDigit>& digits) {
    std::vector<std::int64_t> ranks = {0};
    for (const RankDigit& digit : digits) {
        if (!digit.spanned) continue;
        const std::size_t before = ranks.size();
        const bool only_ends = axis == Axis::embedding_ends && digit.count > 1;
        for (std::int64_t index = only_ends ? digit.count - 1 : 1; index < digit.count; ++index) {
            for (std::size_t i = 0; i < before; ++i)
                ranks.push_back(ranks[i] + index * digit.stride);
        }
    }
    return ranks;
}

/// True if all groups are placed on their nodes as rank 0's group is on its node: each stride
/// divides the size of a node or is a multiple of it.
bool all_lie_alike(const std::vector<RankDigit>& digits, std::int64_t devices_per_node) {
    return std::all_of(digits.begin(), digits.end(), [&](const RankDigit& digit) {
        return digit.stride % devices_per_node == 0 || devices_per_node % digit.stride == 0;
    });
}

/// Where on a node the groups begin: the remainders of their first ranks.
std::set<std::int64_t> beginnings(const std::vector<RankDigit>& digits,
                                  std::int64_t devices_per_node) {
    std::set<std::int64_t> all = {0};
    if (all_lie_alike(digits, devices_per_node)) return all;
    for (const RankDigit& digit : digits) {
        if (digit.spanned) continue;
        const std::set<std::int64_t> before = all;
        for (std::int64_t index = 1; index < std::min(digit.count, devices_per_node); ++index) {
            for (const std::int64_t begin : before)
                all.insert((begin + index * digit.stride) % devices_per_node);
        }
    }
    return all;
}

/// The layout of `group`, shifted so that its first rank is `begin`.
GroupLayout layout_from(std::int64_t begin, const std::vector<std::int64_t>& group,
                        std::int64_t devices_per_node) {
    GroupLayout layout = {.size = std::ssize(group), .per_node = std::ssize(group)};
    std::int64_t node = -1;
    std::int64_t here = 0;  // ranks on that node
    for (const std::int64_t rank : group) {
        const std::int64_t next = (begin + rank) / devices_per_node;
        if (next != node) {
            if (node >= 0) layout.per_node = std::min(layout.per_node, here);
            ++layout.on_nodes;
            node = next;
            here = 0;
        }
        ++here;
    }
    layout.per_node = std::min(layout.per_node, here);
    return layout;
}

/// The bandwidth of a link that messages travel on, with its key in the profile.
double bandwidth_of(const LinkProfile& link, std::string_view key) {
    if (link.bandwidth > 0) return link.bandwidth;
    fail(ExitCode::usage, "hardware: the profile's ", key,
         ".bandwidth is 0: messages between ranks were not measured; calibrate with several ranks "
         "(mpirun --bind-to none -n 2 gptrain plan --calibrate FILE), or set it");
}

/// Bytes per second of the network cards nearest to this many ranks of a node.
double network_bandwidth(const NodeProfile& node, std::int64_t ranks) {
    if (!node.network) {
        fail(ExitCode::usage, "hardware: more ranks than the profile's node.devices (",
             node.devices, ") need node.network");
    }
    const double cards = static_cast<double>(node.cards) * static_cast<double>(ranks) /
                         static_cast<double>(node.devices);
    return bandwidth_of(*node.network, "node.network") * std::max(cards, 1.0 / 64);
}

}  // namespace

GroupLayout group_layout(Axis axis, const MeshShape& mesh, std::int64_t devices_per_node) {
    const std::vector<RankDigit> digits = digits_of(axis, mesh);
    const std::vector<std::int64_t> group = first_group(axis, digits);
    GroupLayout worst = layout_from(0, group, devices_per_node);
    for (const std::int64_t begin : beginnings(digits, devices_per_node)) {
        const GroupLayout layout = layout_from(begin, group, devices_per_node);
        if (std::pair(layout.per_node, -layout.nodes()) < std::pair(worst.per_node, -worst.nodes()))
            worst = layout;
    }
    worst.blocks = most_message_blocks(axis);
    return worst;
}

bool is_between_two(std::string_view operation) {
    return operation == "send" || operation == "recv" || operation == "send_recv";
}

bool can_be_peers(Axis axis, const MeshShape& mesh, std::int64_t devices_per_node) {
    const GroupLayout layout = group_layout(axis, mesh, devices_per_node);
    return layout.nodes() == 1 && layout.size <= most_peers;
}

bool stages_share_node(std::int64_t a, std::int64_t b, const MeshShape& mesh,
                       std::int64_t devices_per_node) {
    const std::int64_t ranks = mesh.size() / mesh.pipeline;
    const std::int64_t first = std::min(a, b) * ranks;
    const std::int64_t last = (std::max(a, b) + 1) * ranks - 1;
    return first / devices_per_node == last / devices_per_node;
}

namespace {

double link_bandwidth(const NodeProfile& node, const GroupLayout& group) {
    const double link = bandwidth_of(node.link, "node.link");
    const double of_blocks = static_cast<double>(group.blocks) * node.link.block_bandwidth;
    return of_blocks > 0 ? std::min(link, of_blocks) : link;
}

}  // namespace

double bandwidth_of(const NodeProfile& node, const GroupLayout& group, std::string_view operation) {
    if (group.nodes() == 1) return link_bandwidth(node, group);
    const double own = network_bandwidth(node, 1);
    if (group.per_node == 1) return own;
    const double link = link_bandwidth(node, group);
    if (operation == "all_to_all") {
        // Equal parts to all other ranks, over link and network at the same time.
        const auto inside = static_cast<double>(group.per_node - 1);
        const auto outside = static_cast<double>(group.size - group.per_node);
        return (inside + outside) / std::max(inside / link, outside / own);
    }
    const double network =
        is_between_two(operation) ? own : network_bandwidth(node, group.per_node);
    return std::min(network, link);
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
