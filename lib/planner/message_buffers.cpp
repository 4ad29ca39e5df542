#include "planner/message_buffers.h"

#include <algorithm>
#include <memory>

#include "comm/message_blocks.h"
#include "comm/peer_limits.h"
#include "hardware/message_time.h"

namespace gptrain {
namespace {

constexpr std::int64_t buffer_steps = 8;
constexpr std::int64_t low_latency_bytes = buffer_steps * 512 * 8 * 16;  // threads, lines, bytes
constexpr std::int64_t line_128_bytes = buffer_steps * 640 * 120 * 8;    // threads, elements, bytes
constexpr std::int64_t simple_bytes = std::int64_t{4} << 20;
constexpr std::int64_t connection_bytes = low_latency_bytes + line_128_bytes + simple_bytes;

constexpr std::int64_t collective_channels = 24;
constexpr std::int64_t pair_channels = 32;
constexpr std::int64_t network_channels = 16;
/// Trees and sums in switches, which deterministic runs do not use.
constexpr std::int64_t other_algorithms_bytes = std::int64_t{256} << 20;
/// The channels of an axis, of those that NCCL would take.
std::int64_t channels_of(Axis axis, std::int64_t unbounded) {
    return std::min<std::int64_t>(unbounded, most_message_blocks(axis));
}

/// For messages of one direction over the network: channels, steps, bytes.
std::int64_t shared_bytes(Axis axis) {
    return channels_of(axis, network_channels) * 16 * (std::int64_t{128} << 10);
}

/// A ring receives from one rank. Over the network both ends of a connection have buffers.
std::int64_t collective_bytes(Axis axis, const GroupLayout& layout, bool deterministic) {
    const std::int64_t ring = layout.per_node == 1 ? 2 * channels_of(axis, network_channels)
                                                   : channels_of(axis, collective_channels);
    return connection_bytes * ring + (deterministic ? 0 : other_algorithms_bytes);
}

/// Messages from another rank of the node, or to and from ranks of other nodes.
std::int64_t message_bytes(Axis axis, std::int64_t senders_on_node, bool other_nodes) {
    return senders_on_node * channels_of(axis, pair_channels) * connection_bytes +
           (other_nodes ? 2 * shared_bytes(axis) : 0);
}

/// The communicator of an axis. With algorithms other than rings NCCL connects every communicator
/// for all collectives (NCCL_RUNTIME_CONNECT=0).
std::int64_t axis_bytes(const RankGroup& group, const GroupLayout& layout, bool deterministic) {
    const bool other_nodes = layout.nodes() > 1;
    const Traffic& traffic = group.traffic;
    std::int64_t bytes = 0;
    if (traffic.collectives || !deterministic)
        bytes += collective_bytes(group.axis, layout, deterministic);
    if (traffic.all_pairs) {
        bytes += message_bytes(group.axis, layout.per_node - 1, other_nodes);
    } else if (traffic.ring) {
        bytes += message_bytes(group.axis, layout.per_node > 1 ? 1 : 0, other_nodes);
    }
    return bytes;
}

/// A channel from or to a stage.
std::int64_t channel_bytes(const Channel& channel, int stage, const RunPlan& plan,
                           std::int64_t ranks_per_node) {
    if (plan.peer_messages && can_be_peers(Axis::pp, plan.mesh, ranks_per_node))
        return mailbox_bytes(2);
    const bool near = stages_share_node(channel.from, channel.to, plan.mesh, ranks_per_node);
    const std::int64_t for_all =
        plan.deterministic ? 0 : collective_bytes(Axis::pp, {2, near ? 2 : 1}, plan.deterministic);
    if (!near) return for_all + shared_bytes(Axis::pp);
    return for_all + message_bytes(Axis::pp, channel.to == stage ? 1 : 0, false);
}

std::int64_t group_bytes(const RankGroup& group, const RunPlan& plan, std::int64_t ranks_per_node) {
    if (plan.peer_messages && can_be_peers(group.axis, plan.mesh, ranks_per_node))
        return mailbox_bytes(group.size);
    return axis_bytes(group, group_layout(group.axis, plan.mesh, ranks_per_node),
                      plan.deterministic);
}

}  // namespace

std::int64_t message_buffer_bytes(const RunPlan& plan, const MeshPlace& place,
                                  const MeshConnections& connections, std::int64_t ranks_per_node) {
    std::int64_t bytes = 0;
    const Mesh mesh(plan.mesh, place, connections, [&](const RankGroup& group) {
        if (group.size > 1 && !group.traffic.one_way)
            bytes += group_bytes(group, plan, ranks_per_node);
        return std::make_unique<OneRankCommunicator>();
    });
    for (const Channel& channel : connections.channels) {
        if (channel.from == place.pp || channel.to == place.pp)
            bytes += channel_bytes(channel, place.pp, plan, ranks_per_node);
    }
    return bytes;
}

}  // namespace gptrain
