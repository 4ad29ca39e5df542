// The time of a step, as a dry run prints it.
#pragma once

#include <string>
#include <string_view>

#include "planner/step_estimate.h"
#include "spec/run_plan.h"

namespace gptrain {

/// A line of a dry run's tables: name and value.
std::string row(std::string_view name, std::string_view value);

/// Prints the time of a step and of the run, and how the step spends it.
void print_time(const StepEstimate& estimate, const RunPlan& plan);

}  // namespace gptrain
