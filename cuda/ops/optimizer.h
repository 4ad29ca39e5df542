// Gradient norm and AdamW, many tensors per launch.
#pragma once

#include <span>

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// In fp64, in an order that depends only on the sizes of the tensors.
void square_sum(std::span<const Tensor> tensors, const Tensor& total, const OpContext& context);
void find_not_finite(std::span<const Tensor> tensors, const StepRef& step,
                     const OpContext& context);
void adamw(std::span<const AdamWPiece> pieces, const AdamWConstants& constants, const StepRef& step,
           const OpContext& context);

/// For any number of parameters.
std::int64_t optimizer_scratch_bytes();

}  // namespace gptrain::cuda
