// Gradient norm and AdamW (formulas: ops.h).
#pragma once

#include <span>

#include "backend/ops.h"

namespace gptrain::cpu {

void square_sum(std::span<const Tensor> tensors, const Tensor& total);
void find_not_finite(std::span<const Tensor> tensors, const StepRef& step);
void adamw(std::span<const AdamWPiece> pieces, const AdamWConstants& constants,
           const StepRef& step);

}  // namespace gptrain::cpu
