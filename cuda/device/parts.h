// Sums over rows in two stages: blocks sum some rows each, then their parts are added.
#pragma once

#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// parts[part][total][column]
struct Parts {
    const float* data;
    std::int64_t count;
    std::int64_t columns;
    float* totals[2];  ///< [columns] each; the second may be null, then it is not in parts either
};

/// totals[i][column] += sum over the parts, in an order that depends on their number alone.
void add_parts(const Parts& parts, const Stream& stream);

}  // namespace gptrain::cuda
