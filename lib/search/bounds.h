// Bounds on the time and memory of a candidate, from the costs of its layers.
#pragma once

#include "search/layer_costs.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Bytes of device memory that the rank that needs the most takes, at least.
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

/// The same with nothing known but the FLOPs, at the highest rate of the device, and free messages.
StepCosts ideal_costs(const RunPlan& plan, const HardwareProfile& hardware);

/// Lower bound on the step time: the work of a stage, with the shortest way of the first microbatch
/// to it and of the last one's gradients from it.
double work_bound(const StepCosts& costs, const RunPlan& plan);

/// The same with the schedule simulated. It leaves out the update of the weights and what messages
/// of different axes do to each other.
double schedule_bound(const StepCosts& costs, const RunPlan& plan);

}  // namespace gptrain
