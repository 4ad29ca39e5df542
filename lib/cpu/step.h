// The step state on the CPU.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

inline StepState& step_state(const StepRef& step) {
    return *reinterpret_cast<StepState*>(step.state.as<std::uint8_t>());
}

void run(const BeginStep& args);
void run(const CheckLoss& args);
void run(const DecideStep& args);

}  // namespace gptrain::cpu
