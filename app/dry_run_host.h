// Host memory in a dry run: whether a node of GPUs has enough, and how much time offload costs.
#pragma once

#include <span>

#include "hardware/profile.h"
#include "planner/mesh_cost.h"
#include "planner/step_estimate.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Compares the host memory of the node of GPUs that needs the most with the profile's. Prints the
/// result if state or activations wait there, or if it does not fit. False if it does not fit; true
/// if the profile does not know the memory.
bool print_host_fit(std::span<const RankCost> ranks, const RunPlan& plan,
                    const HardwareProfile& hardware);

/// Prints how long the moves of state take, and from how many tokens a step on that is little.
void print_state_moves(const StepEstimate& estimate, std::span<const RankCost> ranks,
                       const RunPlan& plan, const HardwareProfile& hardware);

}  // namespace gptrain
