// The step state.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

inline StepState* step_state(const StepRef& step) {
    return reinterpret_cast<StepState*>(step.state.as<std::uint8_t>());
}

void run(const BeginStep& args, const OpContext& context);
void run(const CheckLoss& args, const OpContext& context);
void run(const DecideStep& args, const OpContext& context);

}  // namespace gptrain::cuda
