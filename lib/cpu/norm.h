// Norms, and the residual sum with its dropout (formulas: norm_ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const ResidualAdd& args);
void run(const ResidualNormForward& args);
void run(const ResidualNormBackward& args, Scratch& scratch);
void run(const ApplyDropout& args);

/// Scratch bytes for `tokens` rows of `hidden` features.
std::int64_t norm_scratch_bytes(std::int64_t tokens, std::int64_t hidden);

}  // namespace gptrain::cpu
