// The biases of linear layers, where no product takes them along.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// dbias += sum of the rows of dy. Blocks sum some rows each; their parts are added in an order
/// that depends on sizes alone. Not an epilogue of the product for dweight: the library's would
/// store.
void bias_grad(const Tensor& dy, const Tensor& dbias, const OpContext& context);
void add_bias(const Tensor& y, const Tensor& bias, const OpContext& context);

/// Of bias_grad.
std::int64_t bias_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
