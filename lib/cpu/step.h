// The step state on the CPU.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

inline StepState& step_state(const StepRef& step) {
    return *reinterpret_cast<StepState*>(step.state.as<std::uint8_t>());
}

void begin_step(const StepRef& step, const StepState& given);
void check_loss(const StepRef& step);
void decide_step(const StepRef& step, const StepPolicy& policy);

}  // namespace gptrain::cpu
