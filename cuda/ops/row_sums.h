// Adds rows to the table rows that they name: the gradient of an embedding table.
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

struct RowSums {
    Tensor rows;             ///< i32 [T]: table row plus `begin`
    std::int64_t begin = 0;  ///< rows outside the table are skipped
    Tensor x;                ///< [T, H]
    Tensor table;            ///< fp32 [V, H]
    float scale = 1;
};

/// table[row] += sum of scale x[t] over the tokens t of that row, without atomics. Tokens are
/// sorted by row and summed in chunks, in ascending order of t; the chunk sums of a row with many
/// tokens are then added in an order that depends only on `rows`.
void add_rows(const RowSums& args, const OpContext& context);

}  // namespace gptrain::cuda
