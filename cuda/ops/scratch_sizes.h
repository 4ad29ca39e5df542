// Sizes of kernels from which their need of scratch memory follows (needs.cpp): plain numbers, the
// same on every device.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace gptrain::cuda {

/// fp32 sums of a product that are kept at a time: they stay in the L2 cache of a large GPU.
constexpr std::int64_t linear_sums_bytes = std::int64_t{32} << 20;

/// Rows of dy that a part of a bias gradient has at least.
constexpr std::int64_t bias_part_rows = 64;
/// Blocks of a bias gradient in all, where there are rows enough: some waves on a large GPU.
constexpr std::int64_t bias_blocks = 1056;
/// Columns that a block of a bias gradient sums: so many bytes of dy.
constexpr std::int64_t bias_strip_bytes = 512;

/// Sorted tokens that one block sums into rows of a table.
constexpr int row_sums_chunk = 64;
/// Tokens that a block sorts.
constexpr int row_order_tile = 2048;
/// Of a row's number in one pass: two passes sort tables of up to 2^18 - 1 rows.
constexpr int row_order_digit_bits = 9;
/// Counters of a pass: of each digit in each tile.
constexpr std::int64_t row_order_counts(std::int64_t tokens) {
    return div_ceil(tokens, row_order_tile) << row_order_digit_bits;
}

/// Blocks of a launch that sums squares, each of which sums up every square_blocks-th chunk.
constexpr std::int64_t square_blocks = 1024;
/// Of what AdamW's kernel reads of a step, at most.
constexpr std::int64_t update_bytes = 64;

/// Blocks of a checksum; the sum does not depend on their order.
constexpr std::int64_t checksum_blocks = 1024;

}  // namespace gptrain::cuda
