// FP8 matrices (twin of the Backend ops of the same names). For correctness checks, not for speed.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void absolute_maximum(const Tensor& x, const Tensor& maximum);
void to_float8(const ToFloat8& args);

}  // namespace gptrain::cpu
