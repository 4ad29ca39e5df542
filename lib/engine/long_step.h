// Steps with too many microbatches for the meter to execute each. Once the pipeline is full, every
// further group of microbatches adds the same, so two shorter steps give the cost of any longer
// one.
#pragma once

#include <cstdint>
#include <optional>

#include "spec/run_plan.h"

namespace gptrain {

/// The most microbatches of a step that the meter executes and the planner simulates one by one.
constexpr std::int64_t most_executed = 2000;

/// Microbatches of a step at the final batch size on the first data ranks, which have the most.
std::int64_t most_microbatches(const RunPlan& plan);

/// The plan with another number of microbatches on the first data ranks. The others keep their
/// distance to them, and the batch size has no ramp-up.
RunPlan with_microbatches(const RunPlan& plan, std::int64_t count);

/// Microbatches with which the pipeline is full for a while: while it fills and empties, and while
/// it defers the head's weight gradients, a microbatch does not cost the same as the next one.
std::int64_t full_microbatches(const RunPlan& plan);

/// `groups` groups of microbatches in addition to a shorter step.
struct LongStep {
    RunPlan shorter;
    RunPlan longer;           ///< by one group
    std::int64_t groups = 0;  ///< in addition to those of `shorter`
};

/// The shorter steps whose memory, work and messages give those of the plan; empty if it has at
/// most most_executed microbatches, or too few to fill its pipeline.
std::optional<LongStep> shortened(const RunPlan& plan);

}  // namespace gptrain
