// What a run takes, told without running it.
#pragma once

#include <filesystem>

#include "spec/run_plan.h"

namespace gptrain {

/// Runs a step of every stage over the meter and the lists of the pipeline over the simulator, and
/// prints the plan, the memory of each use on the rank that needs the most, the work of a step, and
/// for a pipeline what each stage takes. Ranks of a stage do the same work: one of them is run.
/// A `timeline` that ends in .svg or .json becomes the picture of one pipeline's step.
void print_dry_run(const RunSpec& spec, const RunPlan& plan,
                   const std::filesystem::path& timeline = {});

}  // namespace gptrain
