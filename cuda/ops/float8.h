// FP8 matrices (see the Backend ops of the same names).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Reads x once.
void absolute_maximum(const Tensor& x, const Tensor& maximum, const OpContext& context);
/// Reads x once, whether rows, columns or both are wanted.
void to_float8(const ToFloat8& args, const OpContext& context);

}  // namespace gptrain::cuda
