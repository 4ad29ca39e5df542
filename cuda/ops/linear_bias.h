// Biases of linear layers that no GEMM epilogue handles.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// dbias += sum of the rows of dy. Each block sums some rows; the parts are added in an order that
/// depends only on sizes. Not an epilogue of dweight's GEMM, because the library's would overwrite
/// dbias.
void run(const BiasGrad& args, const OpContext& context);
void run(const AddBias& args, const OpContext& context);

/// For BiasGrad.
std::int64_t bias_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
