// The choice of experts (formulas: base/router.h).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Throws Error (usage) if there are more than max_experts (scratch_sizes.h).
void check_experts(std::int64_t experts);

void run(const RouterForward& args, const OpContext& context);
void run(const RouterBackward& args, const OpContext& context);
void run(const UpdateBalance& args, const OpContext& context);

}  // namespace gptrain::cuda
