// RMSNorm of rows that ranks share (formulas: norm_ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const RowDots& args);
void run(const RowNormForward& args);
void run(const RowNormBackward& args, Scratch& scratch);

/// Scratch bytes for `tokens` rows of `width` features.
std::int64_t row_norm_scratch_bytes(std::int64_t tokens, std::int64_t width);

}  // namespace gptrain::cpu
