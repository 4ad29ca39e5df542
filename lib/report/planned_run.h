// The memory, messages and time that a run's plan predicts, to compare with the measured ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/step_estimate.h"
#include "report/run_log.h"
#include "spec/make_plan.h"

namespace gptrain {

struct PlannedRun {
    RunPlan plan;
    std::int64_t memory_bytes = 0;         ///< of the rank that needs the most, as in metrics.jsonl
    std::vector<CommMetric> comm;          ///< bytes on the axes that connect ranks; no seconds
    std::optional<StepEstimate> estimate;  ///< on given hardware
};

/// The number of ranks that logged this, from the FLOP/s of all and of one device; empty if the log
/// does not show it.
std::optional<std::int64_t> logged_ranks(const RunLog& log, const RunSpec& spec);

/// Executes a step of the run on the meter. `needs`: those of the target backend. A spec that
/// contradicts itself or the ranks is an Error (usage).
PlannedRun plan_run(const RunSpec& spec, const PlanTarget& target, const BackendMemory& needs,
                    const HardwareProfile* hardware);

}  // namespace gptrain
