// Bounds on the time and memory of a candidate, from the costs of its layers.
#pragma once

#include "search/layer_costs.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Lower bound on the device memory, in bytes, of the rank that needs the most.
double memory_bound(const LayerMemory& costs, const RunPlan& plan);

/// A plan's chunks, its messages between stages, and what it does with all data ranks at the start
/// and the end of a step.
struct StepCosts {
    PipelineCosts pipeline;
    double late_start = 0;          ///< seconds by which the first weights hold up the first F
    std::vector<double> last_sums;  ///< seconds of the sum of each stage's last gradients, a
                                    ///< deferred head apart
};

StepCosts step_costs(const LayerTimes& times, const LayerMemory& memory, const RunPlan& plan,
                     const HardwareProfile& hardware);

/// The same from the FLOPs alone, at the highest rate of the device, with free messages.
StepCosts ideal_costs(const RunPlan& plan, const HardwareProfile& hardware);

/// Lower bound on the step time: the work of a stage, plus the shortest time in which the first
/// microbatch reaches it and the last one's gradients leave it.
double work_bound(const StepCosts& costs, const RunPlan& plan);

/// The same with the schedule simulated. It leaves out the update of the weights and what messages
/// of different axes do to each other.
double schedule_bound(const StepCosts& costs, const RunPlan& plan);

}  // namespace gptrain
