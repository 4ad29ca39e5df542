// Memory as equal pieces in a row, of which a thread handles a few.
#pragma once

#include "cuda/device/device.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

constexpr int flat_block_size = 256;
/// Pieces that a thread has in flight.
constexpr int flat_unroll = 4;

/// Index of a thread's first piece; its others follow at a distance of flat_block_size. A block
/// handles flat_block_size * flat_unroll pieces.
__device__ inline std::int64_t first_piece() {
    return std::int64_t{block_index().x} * flat_block_size * flat_unroll + thread_index();
}

template <class Kernel, class... Args>
void launch_pieces(std::int64_t pieces, Kernel kernel, const OpContext& context,
                   const Args&... args) {
    launch(context.stream,
           {.blocks = div_ceil(pieces, std::int64_t{flat_block_size} * flat_unroll),
            .threads = flat_block_size},
           kernel, args...);
}

}  // namespace gptrain::cuda
