// An estimate of the device memory that messages between GPUs take for their buffers. A run
// measures it instead, because all ranks are connected before memory is planned.
#pragma once

#include <cstdint>

#include "comm/mesh.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Ranks on a node, if no hardware profile gives their number.
constexpr std::int64_t usual_ranks_per_node = 8;

/// Bytes for the communicators of the rank at `place`, with these connections. With NCCL every
/// connection between two GPUs has a buffer for each of three protocols (computeBuffSizes in NCCL
/// 2.28's src/init.cc), on the number of channels that NCCL reports for 8-GPU H100 nodes: 24 for
/// collectives, 32 for point-to-point within a node, and 16 over the network, where all peers share
/// the point-to-point buffers (src/transport/net.cc); but at most one for each thread block of the
/// axis (comm/message_blocks.h). Copies between GPUs have mailboxes (comm/peer_limits.h).
std::int64_t message_buffer_bytes(const RunPlan& plan, const MeshPlace& place,
                                  const MeshConnections& connections, std::int64_t ranks_per_node);

}  // namespace gptrain
