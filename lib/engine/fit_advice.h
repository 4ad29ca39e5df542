// What a run that needs too much memory could be changed to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "spec/run_plan.h"

namespace gptrain {

/// Whether there is memory for it. The plan has few microbatches: more of them take no more memory.
using Fits = std::function<bool(const RunSpec& spec, const RunPlan& plan)>;

/// Of the numbers from `low` to `high` the largest for which `fits` holds, which then holds for all
/// below it; low - 1 if there is none.
std::int64_t largest_that_fits(std::int64_t low, std::int64_t high,
                               const std::function<bool(std::int64_t)>& fits);

/// For a run that does not fit: the largest micro_batch_size with which it would, one that divides
/// the global batch; stricter recomputation; or that neither is enough. Calls `fits` about as often
/// as the size has binary digits, in the same order for equal answers.
std::string what_would_fit(const RunSpec& spec, const PlanTarget& target, const Fits& fits);

}  // namespace gptrain
