// What the host code of an op works with.
#pragma once

#include "backend/scratch.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

struct OpContext {
    const Stream& stream;
    Scratch& scratch;  ///< reset before each op
    const DeviceFacts& device;
    bool sm90_attention = false;  ///< attention by the kernels for sm_90a, where they cover it
    bool deterministic = true;    ///< what backward rebuilds has the bits that it had
};

/// Blocks for `count` pieces of work of which one block does `per_block`, at most `waves` times as
/// many blocks as the device runs at once with `blocks_per_multiprocessor`.
inline std::int64_t grid_for(std::int64_t count, std::int64_t per_block, const DeviceFacts& device,
                             std::int64_t blocks_per_multiprocessor = 8) {
    return std::min(div_ceil(count, per_block), blocks_per_multiprocessor * device.multiprocessors);
}

}  // namespace gptrain::cuda
