// Matrices of 8-bit integers (formulas: value_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const ToInt8& args);
void run(const FromInt8& args);
void run(const GroupedFromInt8& args);

}  // namespace gptrain::cpu
