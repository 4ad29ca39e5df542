// Norms, and the residual sum with its dropout (formulas: ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void residual_norm_forward(const ResidualNormForward& args);
void residual_norm_backward(const ResidualNormBackward& args, Scratch& scratch);
void dropout_backward(const DropoutBackward& args);

/// Scratch bytes for `tokens` rows of `hidden` features.
std::int64_t norm_scratch_bytes(std::int64_t tokens, std::int64_t hidden);

}  // namespace gptrain::cpu
