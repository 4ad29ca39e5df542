// The last stage of a sum over blocks.
#pragma once

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// *total += sum of the parts, by one block, in an order that depends only on their number.
void add_in_order(const double* parts, std::int64_t count, double* total, const Stream& stream);

}  // namespace gptrain::cuda
