// What a run takes, told without running it.
#pragma once

#include <filesystem>

#include "spec/run_plan.h"

namespace gptrain {

/// Runs a step of every rank over the meter (one for all that do the same, measure_mesh) and the
/// lists of the pipeline over the simulator, and prints the plan, the memory of each use on the
/// rank that needs the most, the work of a step, the most bytes that a rank sends on each axis, and
/// for a pipeline what each stage takes. `cuda`: for GPUs, else for the CPU of this machine. A
/// `timeline` that ends in .svg or .json becomes the picture of one pipeline's step.
void print_dry_run(const RunSpec& spec, const RunPlan& plan, bool cuda,
                   const std::filesystem::path& timeline = {});

}  // namespace gptrain
