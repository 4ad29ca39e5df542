// Rotary position embedding.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// D is at most 256.
void run(const Rope& args, const OpContext& context);

}  // namespace gptrain::cuda
