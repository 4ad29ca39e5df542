// Gradient norm and AdamW (formulas: step_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const Clear& args);
void run(const SquareSum& args);
void run(const FindNotFinite& args);
void run(const AdamW& args);

}  // namespace gptrain::cpu
