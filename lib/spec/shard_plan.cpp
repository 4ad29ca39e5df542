#include "spec/shard_plan.h"

#include <algorithm>

#include "base/checked.h"
#include "spec/expert_checks.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// The most ranks that divide a parameter among them.
std::int64_t most_sharers(const ParallelSpec& parallel, const MeshShape& mesh) {
    const std::int64_t copies = mesh.data * mesh.context;
    const std::int64_t of_experts = mesh.expert > 1 ? copies * mesh.tensor / mesh.expert : 1;
    return std::max(parallel.shard_ranks.value_or(copies), of_experts);
}

void check_weights(const RunSpec& spec) {
    require(spec.precision.frozen == FrozenWeights::compute,
            "parallel.shard weights cannot be used with precision.frozen ",
            name_of(spec.precision.frozen),
            ", whose values every rank holds whole; set parallel.shard to gradients or remove "
            "precision.frozen");
}

}  // namespace

std::int64_t shard_ranks(const ParallelSpec& parallel, const MeshShape& mesh) {
    if (!parallel.shard_ranks) return 1;
    const std::int64_t ranks = *parallel.shard_ranks;
    const std::int64_t copies = mesh.data * mesh.context;
    require(copies % ranks == 0 && are_neighbours(ranks, mesh.context), "parallel.shard_ranks ",
            ranks, " must divide parallel.data x context = ", copies,
            ", and divide parallel.context ", mesh.context,
            " or be a multiple of it; change one of them");
    return ranks < copies ? ranks : 1;
}

void set_shard(RunPlan& plan, const RunSpec& spec) {
    const ParallelSpec& parallel = spec.parallel;
    plan.shard = parallel.shard;
    plan.reshard = parallel.reshard;
    const bool alone = parallel.shard_ranks == 1 && plan.mesh.data * plan.mesh.context > 1;
    if (alone) plan.shard = Sharded::none;
    if (plan.shards_gradients() && most_sharers(parallel, plan.mesh) == 1)
        plan.shard = Sharded::optimizer;
    if (!plan.shards_gradients()) return;
    require(plan.schedule != ScheduleKind::zero_bubble, "parallel.shard ", name_of(plan.shard),
            " cannot be used with parallel.schedule zero_bubble, which computes the gradients of a "
            "layer in two actions; set the schedule to 1f1b or parallel.shard to optimizer");
    if (plan.shards_weights()) check_weights(spec);
}

}  // namespace gptrain
