// Which tokens belong to each row of a table.
#pragma once

#include "cuda/device/device.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Token t belongs to row rows[t] - begin; to none where the table has no such row.
struct TokenRows {
    const std::int32_t* rows;
    std::int64_t begin;
    int tokens;
    int table_rows;

    /// table_rows: none.
    __device__ int row_of(int token) const {
        const std::int64_t row = rows[token] - begin;
        return row >= 0 && row < table_rows ? static_cast<int>(row) : table_rows;
    }
};

/// The tokens by ascending row, those of one row in ascending order, those of none last: a radix
/// sort that keeps the order of equals, by counting (Knuth, "The Art of Computer Programming",
/// volume 3, section 5.2.5). In scratch memory.
const int* sort_by_row(const TokenRows& tokens, const OpContext& context);

}  // namespace gptrain::cuda
