// Rows that are added to the rows of a table which they name: the gradient of a table of
// embeddings.
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

struct RowSums {
    Tensor rows;             ///< i32 [T]: row of the table, plus `begin`
    std::int64_t begin = 0;  ///< rows outside of the table are left out
    Tensor x;                ///< [T, H]
    Tensor table;            ///< fp32 [V, H]
};

/// table[row] += sum of x[t] over the tokens t of that row, without atomic additions: tokens are
/// sorted by row, and some neighbours at a time are summed in ascending order of t; sums of a row
/// with many tokens are then added to each other in an order that depends on `rows` alone.
void add_rows(const RowSums& args, const OpContext& context);

}  // namespace gptrain::cuda
