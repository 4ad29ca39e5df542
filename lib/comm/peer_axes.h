// Which axes of a mesh lie inside nodes, where the GPUs can copy into each other's memory.
#pragma once

#include <span>
#include <string>

#include "comm/mesh.h"
#include "comm/peer_limits.h"

namespace gptrain {

/// The axes whose groups have 2 to most_peers ranks and lie on one node each. `nodes`: a name for
/// the node of each rank.
PeerAxes axes_inside_nodes(const MeshShape& shape, std::span<const std::string> nodes);

/// "messages: tp and cp by copies between GPUs, dp x cp over NCCL 2.28.9" for the axes that are
/// connected. `nccl`: its version, empty if it is not used.
std::string messages_line(const std::vector<Axis>& connected, const PeerAxes& peer,
                          const std::string& nccl);

}  // namespace gptrain
