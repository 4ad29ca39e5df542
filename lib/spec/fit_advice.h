// Suggests changes to a run that needs too much memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "spec/make_plan.h"

namespace gptrain {

/// True if there is memory for the run. The plan has few microbatches: more would not take more
/// memory.
using Fits = std::function<bool(const RunPlan& plan)>;

/// The largest number from `low` to `high` for which `fits` holds; low - 1 if there is none. If
/// `fits` holds for a number it must hold for all smaller ones.
std::int64_t largest_that_fits(std::int64_t low, std::int64_t high,
                               const std::function<bool(std::int64_t)>& fits);

/// Advice for a run of `spec` that does not fit: the largest micro_batch_size that would fit and
/// divides the global batch, a stricter recompute mode, or that neither is enough. Calls `fits`
/// about as often as the size has binary digits, and in the same order if the answers are the same.
std::string fit_advice(const RunSpec& spec, const PlanTarget& target, const Fits& fits);

}  // namespace gptrain
