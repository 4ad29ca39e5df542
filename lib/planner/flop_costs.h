// Costs of pipeline actions from FLOPs alone.
#pragma once

#include "planner/simulate.h"
#include "spec/run_plan.h"

namespace gptrain {

/// FLOP/s that `flop_costs` assumes: about what GEMMs reach on a device of 2023.
constexpr double assumed_rate = 5e14;

/// Seconds of a microbatch on one rank of a stage at `assumed_rate`; messages are free. F of the
/// last chunk includes the head's gradients, unless WH has the weight's. Full recomputation adds F
/// to BW, or to both B and W. Frozen weights have no weight gradient.
PipelineCosts flop_costs(const RunPlan& plan);

/// One step of one pipeline, simulated with these costs, which also detects schedules that do not
/// match.
Timeline flop_timeline(const RunPlan& plan);
/// Its bubble. With more than most_executed microbatches that follows from shorter steps
/// (long_times.h).
double flop_bubble(const RunPlan& plan);

}  // namespace gptrain
