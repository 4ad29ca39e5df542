// What a run takes, told without running it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "spec/run_plan.h"

namespace gptrain {

struct DryRunOptions {
    std::filesystem::path timeline;             ///< empty: none
    std::optional<std::int64_t> device_memory;  ///< bytes
};

/// Runs a step of every rank over the meter (one for all that do the same, measure_mesh) and the
/// lists of the pipeline over the simulator, and prints the plan, the memory of each use on the
/// rank that needs the most, the work of a step, the most bytes that a rank sends on each axis, and
/// for a pipeline what each stage takes. The plan is for `target`. A line says whether it fits, and
/// if not what would: with `device_memory` on devices of so many bytes, else on the CPU of this
/// machine with what it has now. A `timeline` that ends in .svg or .json becomes the picture of one
/// pipeline's step.
void print_dry_run(const RunSpec& spec, const RunPlan& plan, const PlanTarget& target,
                   const DryRunOptions& options);

}  // namespace gptrain
