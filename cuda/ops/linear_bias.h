// Biases of linear layers where no GEMM handles them.
//
// LinearWeightGrad sums dy in its GEMM, which reads dy anyway (linear.h). This kernel is for layers
// whose bias gradient comes without a weight gradient (deferred W, a frozen weight, sequence
// parallelism of a row layer), and for those where the library cannot sum it, or is not faster.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// dbias += sum of the rows of dy. Each block sums some rows; the parts are added in an order that
/// depends only on sizes.
void run(const BiasGrad& args, const OpContext& context);
/// A block sums the rows of one expert in a strip of columns.
void run(const GroupedBiasGrad& args, const OpContext& context);
void run(const AddBias& args, const OpContext& context);

/// Throws an Error (bug) if this cannot be the bias of these rows, or its gradient.
void check_bias(const Tensor& rows, const Tensor& bias);

/// For BiasGrad.
std::int64_t bias_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
