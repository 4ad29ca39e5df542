// GELU and SwiGLU, forward and backward (formulas: ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void activation_forward(const ActivationForward& args);
void activation_backward(const ActivationBackward& args);

}  // namespace gptrain::cpu
