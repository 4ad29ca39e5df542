// FP8 matrices (twin of the Backend ops of the same names). For correctness checks, not for speed.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void update_amax(const Tensor& x, const Tensor& amax);
void to_fp8(const ToFp8& args);

}  // namespace gptrain::cpu
