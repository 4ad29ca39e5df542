// Activation functions, forward and backward (formulas: model_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const ActivationForward& args);
void run(const ActivationBackward& args);

}  // namespace gptrain::cpu
