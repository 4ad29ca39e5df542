// What a run takes, told without running it.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Prints the plan, and for its first rank the memory of each use and the work of a step.
void print_dry_run(const RunSpec& spec, const RunPlan& plan);

}  // namespace gptrain
