// FP8 matrices (formulas: backend/value_ops.h).
#pragma once

#include "backend/backend.h"
#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Reads x once.
void run(const UpdateAmax& args, const OpContext& context);
/// Reads x once, whatever is wanted; for row_sum each block sums its tile, and the sums of the
/// tiles are added in an order that depends only on sizes. Only if sizes or strides are no
/// multiples of 16 is x read again for row_sum.
void run(const ToFp8& args, const OpContext& context);

/// For ToFp8.
std::int64_t fp8_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
