// The plan of a spec that came from a file.
#pragma once

#include <string>

#include "spec/run_plan.h"

namespace gptrain {

/// `make_plan`, whose faults name keys, with the file in front of them.
RunPlan plan_of(const std::string& file, const RunSpec& spec, const PlanTarget& target);

}  // namespace gptrain
