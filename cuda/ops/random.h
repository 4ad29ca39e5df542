// Weight initialization.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const InitNormal& args, const OpContext& context);

}  // namespace gptrain::cuda
