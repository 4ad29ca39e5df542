// The context that the host code of an op needs.
#pragma once

#include "backend/scratch.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

struct OpContext {
    const Stream& stream;
    Scratch& scratch;  ///< reset before each op
    const DeviceProperties& device;
    bool sm90_attention = false;  ///< use the sm_90a attention kernels for the ops they cover
    bool deterministic = true;    ///< recomputation in backward gives the same bits as forward
    std::int32_t gemm_multiprocessors = 0;  ///< that GEMMs are chosen for; 0: all
};

/// The number of blocks for `count` items at `per_block` items each, capped at `waves` times the
/// blocks that the device runs at once with `blocks_per_multiprocessor`.
inline std::int64_t grid_for(std::int64_t count, std::int64_t per_block,
                             const DeviceProperties& device,
                             std::int64_t blocks_per_multiprocessor = 8) {
    return std::min(div_ceil(count, per_block), blocks_per_multiprocessor * device.multiprocessors);
}

/// Shared memory of a multiprocessor of an A100, and of an H100, H200 or B200.
constexpr std::int64_t multiprocessor_bytes_a100 = 164 * 1024;
constexpr std::int64_t multiprocessor_bytes_h100 = 228 * 1024;
/// True if a multiprocessor has room for this many blocks with this much shared memory each.
constexpr bool blocks_fit(std::int64_t blocks, std::int64_t shared_bytes,
                          std::int64_t multiprocessor_bytes) {
    constexpr std::int64_t reserved_bytes = 1024;  // of each block, by the device
    return blocks * (shared_bytes + reserved_bytes) <= multiprocessor_bytes;
}

}  // namespace gptrain::cuda
