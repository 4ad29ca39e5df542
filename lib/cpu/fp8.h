// FP8 matrices (formulas: value_ops.h). For correctness checks, not for speed.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const UpdateAmax& args);
void run(const ToFp8& args);
void run(const ToFp8Rows& args);
void run(const ToFp8Blocks& args);
void run(const TransposeFp8& args);

}  // namespace gptrain::cpu
