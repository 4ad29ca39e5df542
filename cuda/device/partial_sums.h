// Two-stage sums over rows: each block sums some rows, then these partial sums are added.
#pragma once

#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// parts[part][total][column]
struct PartialSums {
    const float* data;
    std::int64_t count;
    std::int64_t columns;
    /// [columns] each. Null: not wanted; without the second one parts do not include it.
    float* totals[2];
};

/// totals[i][column] += sum over the parts, in an order that depends only on their number.
void add_partial_sums(const PartialSums& parts, const Stream& stream);

}  // namespace gptrain::cuda
