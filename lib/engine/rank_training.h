// One rank's share of training: its microbatches, its schedule and the layout of its parameters.
#pragma once

#include <cstdint>
#include <optional>

#include "comm/mesh.h"
#include "model/layout.h"
#include "model/placement.h"
#include "schedule/schedule.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Microbatches of the rank in a step at the final batch size.
std::int64_t most_microbatches(const RunPlan& plan, const MeshPlace& place);

/// The actions of a step at the final batch size, which needs the most memory.
Schedule largest_schedule(const RunPlan& plan, const MeshPlace& place);

ParameterLayout training_layout(const RunPlan& plan, const Mesh& mesh);

/// Empty if weights and gradients are whole on every rank.
std::optional<Placement> training_placement(const RunPlan& plan, const Mesh& mesh);

}  // namespace gptrain
