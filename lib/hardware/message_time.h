// The time of messages between ranks by a hardware profile.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/checked.h"
#include "comm/mesh.h"
#include "hardware/profile.h"

namespace gptrain {

/// Where the ranks of a group are. Ranks fill the nodes in order of their world rank.
struct GroupLayout {
    std::int64_t size = 1;
    std::int64_t per_node = 1;  ///< fewest ranks of the group on one of its nodes
    std::int64_t on_nodes = 0;  ///< nodes that the group is on; 0: size / per_node, rounded up
    std::int64_t blocks = 0;    ///< thread blocks that carry a message on a GPU; 0: no bound

    std::int64_t nodes() const { return on_nodes > 0 ? on_nodes : div_ceil(size, per_node); }
};

/// The layout of an axis's groups. If groups are placed differently on the nodes (6 ranks on nodes
/// of 8), the layout of the group with the fewest ranks on a node.
GroupLayout group_layout(Axis axis, const MeshShape& mesh, std::int64_t devices_per_node);

/// True if each rank of stage `a` is on the node of the rank of stage `b` with which it exchanges
/// messages.
bool stages_share_node(std::int64_t a, std::int64_t b, const MeshShape& mesh,
                       std::int64_t devices_per_node);

/// True if each group of the axis lies on one node, and has few enough ranks for messages that are
/// copies between GPUs (comm/peer_limits.h).
bool can_be_peers(Axis axis, const MeshShape& mesh, std::int64_t devices_per_node);

/// True for messages between two ranks, "send" for example, false for collectives.
bool is_between_two(std::string_view operation);

/// Bytes per second and direction that a rank of the group sends at most in an operation: its links
/// bound them, and the thread blocks of the message (node.link.block_bandwidth).
double bandwidth_of(const NodeProfile& node, const GroupLayout& group, std::string_view operation);

/// Seconds of an operation ("all_reduce", "send", ...) in which a rank sends `sent` bytes, counted
/// as in comm/comm_listener.h, if all ranks start it together.
///
/// Within a node: a ring of p ranks with p - 1 steps (2 (p - 1) for an all-reduce), or a tree with
/// log2 p steps at half the bandwidth, whichever is faster. Across nodes, each rank of the group
/// contributes the network cards nearest to it, and a ring runs at the lower of the link's
/// bandwidth and the sum of these cards'; its steps cost the network's latency at node borders. A
/// message between two ranks has one step. An all_to_all has p - 1 messages. Where each rank sends
/// its own messages (send_recv, all_to_all), those to another node use only the cards nearest to
/// the rank. If an operation within a node was measured (link.measured), the measured time holds
/// (measured_time.h). `only_rings`: there are neither trees nor sums in switches, as in
/// deterministic runs with NCCL.
double message_seconds(const NodeProfile& node, const GroupLayout& group,
                       std::string_view operation, double sent, bool only_rings = false);

}  // namespace gptrain
