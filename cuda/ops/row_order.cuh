// Groups tokens by their row of a table.
#pragma once

#include "cuda/device/device.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Token t belongs to row rows[t] - begin, or to none if the table lacks that row.
struct TokenRows {
    const std::int32_t* rows;
    std::int64_t begin;
    int tokens;
    int table_rows;

    /// Returns table_rows if the token has no row.
    __device__ int row_of(int token) const {
        const std::int64_t row = rows[token] - begin;
        return row >= 0 && row < table_rows ? static_cast<int>(row) : table_rows;
    }
};

/// Returns the tokens sorted by row, those of a row in ascending order, and those without a row
/// last. A stable radix sort by counting (Knuth, "The Art of Computer Programming", volume 3,
/// section 5.2.5). The result is in scratch memory.
const int* sort_by_row(const TokenRows& tokens, const OpContext& context);

}  // namespace gptrain::cuda
