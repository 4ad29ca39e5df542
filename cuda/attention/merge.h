// Merges two parts of attention by their log-sum-exp (backend/ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const MergeAttention& args, const OpContext& context);

}  // namespace gptrain::cuda
