// The multiprocessors of a GPU that messages hold.
#pragma once

#include "comm/mesh.h"

namespace gptrain {

/// The most thread blocks that NCCL may use for a message of a group. Each holds a multiprocessor
/// from the time at which the stream reaches the message until it ends, also while it waits for the
/// other ranks.
///
/// Sums of gradients and messages of tp, cp and experts need the bandwidth of the node's links: 16
/// blocks carry it (NCCL's src/graph/tuning.cc has 36.7 GB/s for a block on Hopper, in
/// perChMaxRingLL128Bws). A receive between stages waits through most of an action, so it holds
/// few.
constexpr int most_message_blocks(Axis axis) {
    switch (axis) {
        case Axis::tp:
        case Axis::cp:
        case Axis::dp:
        case Axis::dp_cp:
        case Axis::shard:
        case Axis::shard_copies:
        case Axis::experts:
        case Axis::expert_copies: return 16;
        case Axis::pp: return 4;
        default: return 8;
    }
}

}  // namespace gptrain
