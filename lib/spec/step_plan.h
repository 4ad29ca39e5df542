// The steps of a run.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Sets the plan's number, size and learning rate of the steps, from the mesh and the sizes of a
/// microbatch that it has. Error (usage) for a batch that does not divide among the data ranks, a
/// learning rate whose phases do not fit, and numbers of tokens beyond 2^63 - 1.
void set_steps(RunPlan& plan, const RunSpec& spec);

}  // namespace gptrain
