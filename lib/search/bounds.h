// Bounds on the time and memory of a candidate, from the costs of its layers.
#pragma once

#include "search/layer_costs.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Lower bound on the device memory, in bytes, of the rank that needs the most.
double memory_bound(const LayerMemory& costs, const RunPlan& plan);

/// Costs of a plan's chunks, of its messages between stages, and of its data-parallel communication
/// at the start and end of a step.
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

/// The same with the schedule simulated. It ignores the optimizer's update and interference between
/// messages of different axes.
double schedule_bound(const StepCosts& costs, const RunPlan& plan);

}  // namespace gptrain
