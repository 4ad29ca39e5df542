// Activation functions. One kernel per direction computes them in every mode, from the input as
// stored.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const ActivationForward& args, const OpContext& context);
void run(const ActivationBackward& args, const OpContext& context);

}  // namespace gptrain::cuda
