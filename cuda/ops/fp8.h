// FP8 matrices (see the Backend ops of the same names).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Reads x once.
void update_amax(const Tensor& x, const Tensor& amax, const OpContext& context);
/// Reads x once, whether rows, columns or both are wanted.
void to_fp8(const ToFp8& args, const OpContext& context);

}  // namespace gptrain::cuda
