// The step of a plan, traced on every stage of its pipeline, and its time on any hardware.
#pragma once

#include <cstdint>
#include <map>

#include "backend/backend.h"
#include "planner/step_time.h"
#include "spec/run_plan.h"

namespace gptrain {

class TracedStep {
public:
    /// Plan and needs, those of the target backend, must outlive the step.
    TracedStep(const RunPlan& plan, const BackendMemory& needs) : plan_(plan), needs_(needs) {}

    const RunPlan& plan() const { return plan_; }

    /// The time of the step. Has no timeline if there are more than most_executed microbatches,
    /// because then only some are traced and simulated (long_times.h).
    StepTime time(const HardwareProfile& hardware);
    /// Its seconds if NCCL is free to choose its algorithms (deterministic: false).
    double seconds_with_any_algorithm(const HardwareProfile& hardware);

private:
    StepTime time(const HardwareProfile& hardware, bool only_rings);
    /// The traces of a step with this many microbatches, kept for the next profile.
    PipelineTraces& traces(std::int64_t microbatches);

    const RunPlan& plan_;
    const BackendMemory& needs_;
    std::map<std::int64_t, PipelineTraces> traces_;
};

}  // namespace gptrain
