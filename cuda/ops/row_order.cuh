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

/// For each position of the sorted tokens, and the one past the last: sets `begins` of the row that
/// begins there, and of those before it that have no tokens. Together they set table_rows + 1.
__device__ inline void set_begins(const TokenRows& tokens, const int* order, int at,
                                  std::int32_t* begins) {
    const auto row_at = [&](int i) {
        return i < tokens.tokens ? tokens.row_of(order[i]) : tokens.table_rows;
    };
    const int last = row_at(at);
    for (int row = at == 0 ? 0 : row_at(at - 1) + 1; row <= last; ++row)
        begins[row] = at;
}

}  // namespace gptrain::cuda
