// Optimizer state in fewer bytes: what a plan may combine it with.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Error (usage) unless the plan can keep its moments and main weights in their formats: bf16 main
/// weights need bf16 as the compute dtype and AdamW; each rank needs whole blocks of 8-bit moments.
void check_small_state(const RunPlan& plan);

}  // namespace gptrain
