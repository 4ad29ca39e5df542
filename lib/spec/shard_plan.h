// The state that ranks with the same parameters divide among them (parallel.shard).
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// MeshShape::shard. Error (usage) unless parallel.shard_ranks are whole neighbours on data x
/// context.
std::int64_t shard_ranks(const ParallelSpec& parallel, const MeshShape& mesh);

/// RunPlan::shard and `reshard`, on the mesh of the plan. Error (usage) that names parallel.shard
/// if it does not go with the schedule or the precision.
void set_shard(RunPlan& plan, const RunSpec& spec);

}  // namespace gptrain
