// From a run spec to its plan, and back to the spec in force.
#pragma once

#include <cstdint>

#include "spec/run_plan.h"

namespace gptrain {

/// The smallest number of ranks for the spec's mesh. `parallel.data: auto` counts as one data rank,
/// or as those that parallel.expert needs.
std::int64_t min_ranks(const ParallelSpec& parallel);

/// The target of a plan.
struct PlanTarget {
    std::int64_t world_size = 1;
    bool cuda = false;     ///< the device, which sets the default of precision.compute
    bool dry_run = false;  ///< the world size was requested for a dry run
    /// If nothing runs; 0: unknown. A run knows where its ranks are once they are connected.
    std::int64_t ranks_per_node = 0;
};

/// Derives the plan. A contradiction between keys (sizes that do not divide, a mesh that does not
/// fit the ranks) is an Error (usage). It starts with the location of the faulty key, if the spec
/// was read from a file, and names the keys, their values and what to change. If
/// lr_schedule.decay_steps is auto, a warmup or wsd decay that does not fit in the run's steps is
/// shortened.
RunPlan make_plan(const RunSpec& spec, const PlanTarget& target);

/// The part of make_plan's checks that concerns the model on its mesh, whatever the batch, the
/// precision and the recomputation: Error (usage) with the same message.
void check_mesh(const RunSpec& spec, const PlanTarget& target);

/// The spec in force in this start: every open value known to the plan is filled in.
RunSpec effective_spec(const RunSpec& spec, const RunPlan& plan);

/// The spec for spec.yaml, from which the run can be restarted, perhaps with more steps or on more
/// ranks. Like effective_spec, except that data.num_samples, lr_schedule and parallel.data stay as
/// the spec has them, because the plan's numbers would be wrong then.
RunSpec restart_spec(const RunSpec& spec, const RunPlan& plan);

}  // namespace gptrain
