// Biases of linear layers that no GEMM epilogue handles.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// dbias += sum of the rows of dy. Each block sums some rows; the parts are added in an order that
/// depends only on sizes. Not an epilogue of dweight's GEMM, because the library's would overwrite
/// dbias.
void bias_grad(const Tensor& dy, const Tensor& dbias, const OpContext& context);
void add_bias(const Tensor& y, const Tensor& bias, const OpContext& context);

/// For bias_grad.
std::int64_t bias_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
