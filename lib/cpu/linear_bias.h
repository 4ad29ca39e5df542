// Biases of linear layers.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const BiasGrad& args);
void run(const GroupedBiasGrad& args);
void run(const AddBias& args);

}  // namespace gptrain::cpu
