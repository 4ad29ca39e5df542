// The step state.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

inline StepState* step_state(const StepRef& step) {
    return reinterpret_cast<StepState*>(step.state.as<std::uint8_t>());
}

void begin_step(const StepRef& step, const StepState& given, const OpContext& context);
void check_loss(const StepRef& step, const OpContext& context);
void decide_step(const StepRef& step, const StepPolicy& policy, const OpContext& context);

}  // namespace gptrain::cuda
