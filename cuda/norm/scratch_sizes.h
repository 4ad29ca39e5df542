// Kernel sizes that determine scratch memory (needs.cpp): plain numbers, the same on every device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace gptrain::cuda {

/// The maximum number of blocks in a norm's backward, each with its own sums for dweight and dbias:
/// two for each of 192 multiprocessors, of which no GPU has more. Scratch memory is planned for
/// them; a device runs as many as it holds at once (norm_blocks).
constexpr std::int64_t max_norm_parts = 384;
/// The minimum number of rows per group of threads, so that the parts are small compared to their
/// inputs.
constexpr std::int64_t norm_group_rows = 4;

/// Warps of a block that normalises heads.
constexpr int head_norm_warps = 8;
/// The number of blocks in the backward of `heads` heads, at most `blocks`.
constexpr std::int64_t head_norm_parts(std::int64_t heads, std::int64_t blocks = max_norm_parts) {
    return std::min(blocks, div_ceil(heads, norm_group_rows * head_norm_warps));
}

/// The number of blocks in the backward of `tokens` rows that ranks share, at most `blocks`.
constexpr std::int64_t row_norm_parts(std::int64_t tokens, std::int64_t blocks = max_norm_parts) {
    return std::min(blocks, div_ceil(tokens, norm_group_rows));
}

}  // namespace gptrain::cuda
