// Kernel sizes that determine scratch memory (needs.cpp): plain numbers, the same on every device.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace gptrain::cuda {

/// The minimum number of rows of dy in a part of a bias gradient.
constexpr std::int64_t bias_part_rows = 64;
/// The number of blocks for a bias gradient, if there are enough rows: a few waves on a large GPU.
constexpr std::int64_t bias_blocks = 1056;
/// Width of the column strip that a block of a bias gradient sums, in bytes of dy.
constexpr std::int64_t bias_strip_bytes = 512;

/// Rows and columns of the tile that a block converts to FP8.
constexpr int fp8_tile = 128;

/// Sorted tokens that one block sums into table rows.
constexpr int row_sums_chunk = 64;
/// Tokens that a block sorts.
constexpr int row_order_tile = 2048;
/// Bits of a row number per pass: two passes sort tables of up to 2^18 - 1 rows.
constexpr int row_order_digit_bits = 9;
/// Counters in a pass: one for each digit in each tile.
constexpr std::int64_t row_order_counts(std::int64_t tokens) {
    return div_ceil(tokens, row_order_tile) << row_order_digit_bits;
}

/// The largest number of experts of a router.
constexpr int max_experts = 1536;
/// The minimum number of tokens whose sums of a router a block adds.
constexpr std::int64_t router_part_tokens = 32;
/// The number of blocks for the sums of a router, if there are enough tokens.
constexpr std::int64_t router_blocks = 256;
/// Blocks for the tokens of a group.
constexpr std::int64_t router_parts(std::int64_t tokens, std::int64_t groups) {
    const std::int64_t most = div_ceil(tokens / groups, router_part_tokens);
    const std::int64_t wanted = router_blocks / groups;
    const std::int64_t parts = wanted < most ? wanted : most;
    return parts > 1 ? parts : 1;
}

/// Blocks for a table of tensors; each handles every table_blocks-th chunk of them.
constexpr std::int64_t table_blocks = 1024;
/// The maximum size of a step's data that AdamW's kernel reads.
constexpr std::int64_t update_bytes = 64;

/// Blocks of a checksum; the result does not depend on their order.
constexpr std::int64_t checksum_blocks = 1024;

}  // namespace gptrain::cuda
