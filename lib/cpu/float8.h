// Matrices in 8 bits (twin of Backend's ops of the same name): for checking, not for speed.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void absolute_maximum(const Tensor& x, const Tensor& maximum);
void to_float8(const ToFloat8& args);

}  // namespace gptrain::cpu
