#include "search/savings.h"

#include <algorithm>
#include <limits>

#include "engine/long_step.h"
#include "hardware/message_time.h"
#include "planner/step_prices.h"
#include "schedule/stage_plan.h"
#include "spec/expert_checks.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// The mesh of a candidate as far as it decides who divides the state.
struct Sharers {
    std::int64_t copies = 1;      ///< ranks of data and context
    std::int64_t of_experts = 1;  ///< ranks with the same experts
    std::int64_t in_node = 1;     ///< of data and context, neighbours on a node

    Sharers(const Choices& choices, const SearchContext& context) {
        const ParallelSpec& parallel = choices.parallel;
        copies = context.target.world_size / (parallel.pipeline * parallel.tensor);
        if (parallel.expert > 1) of_experts = copies * parallel.tensor / parallel.expert;
        in_node = ranks_per_node(context.hardware, context.target.world_size) / parallel.tensor;
    }
    std::int64_t most() const { return std::max(copies, of_experts); }
    bool has_groups(const ParallelSpec& parallel) const {
        return in_node > 1 && in_node < copies && copies % in_node == 0 && parallel.expert == 1 &&
               are_neighbours(in_node, parallel.context);
    }
};

bool keeps_fp32(const Choices& choices, const RunSpec& spec) {
    return choices.compute != Precision::fp32 && spec.precision.main_weights == Precision::fp32;
}

/// Adds what divides more.
void divide(const Choices& choices, const SearchSpace& space, const Sharers& sharers,
            std::vector<Choices>& savings) {
    const ParallelSpec& parallel = choices.parallel;
    if (!space.divides_more || choices.defers_weights() || choices.offload.optimizer) return;
    Choices more = choices;
    if (parallel.shard == Sharded::gradients) {
        more.parallel.shard = Sharded::weights;
        savings.push_back(more);
    }
    if (parallel.shard >= Sharded::gradients || sharers.most() == 1) return;
    more.parallel.shard = Sharded::gradients;
    const bool varies = space.shard_ranks.empty() && !parallel.shard_ranks;
    if (varies && sharers.has_groups(parallel)) {
        more.parallel.shard_ranks = sharers.in_node;
        savings.push_back(more);
        more.parallel.shard_ranks.reset();
    }
    savings.push_back(more);
}

/// Adds what moves more into host memory.
void offload(const Choices& choices, const SearchSpace& space, const Sharers& sharers,
             const SearchContext& context, std::vector<Choices>& savings) {
    const bool has_link = context.target.cuda && context.hardware.device.copy_bandwidth > 0;
    if (!space.offloads_more || !has_link || context.host_capacity == 0) return;
    const ParallelSpec& parallel = choices.parallel;
    Choices more = choices;
    if (choices.offload.optimizer) {
        const bool can = choices.recompute == Recompute::full && parallel.virtual_stages == 1 &&
                         parallel.schedule == ScheduleKind::one_f_one_b &&
                         choices.offload.activations == OffloadedActivations::off;
        more.offload.activations = OffloadedActivations::blocks;
        if (can) savings.push_back(more);
        return;
    }
    const bool divided_in_part = parallel.shard == Sharded::gradients ||
                                 (parallel.shard == Sharded::weights && parallel.shard_ranks);
    if (divided_in_part || sharers.most() > most_offloading) return;
    more.offload.optimizer = true;
    more.offload.main_weights = keeps_fp32(choices, context.spec);
    savings.push_back(more);
}

/// Seconds of `times` operations of the ranks that divide gradients or weights.
double operation_seconds(const RunPlan& plan, std::string_view operation, double bytes,
                         const HardwareProfile& hardware) {
    const Axis axis = plan.mesh.shard > 1 ? Axis::shard : Axis::dp_cp;
    const GroupLayout group =
        group_layout(axis, plan.mesh, ranks_per_node(hardware, plan.mesh.size()));
    const auto ranks = static_cast<double>(group.size);
    return message_seconds(hardware.node, group, operation, bytes * (ranks - 1) / ranks);
}

}  // namespace

std::vector<Choices> savings_of(const Choices& choices, const SearchSpace& space,
                                const SearchContext& context) {
    std::vector<Choices> savings;
    if (choices.parallel.pipeline > 1) return savings;
    const Sharers sharers(choices, context);
    divide(choices, space, sharers, savings);
    offload(choices, space, sharers, context, savings);
    return savings;
}

SavingSeconds saving_seconds(const RunPlan& plan, const LayerMemory& memory,
                             const HardwareProfile& hardware) {
    SavingSeconds seconds;
    const MeshShape& mesh = plan.mesh;
    const std::int64_t copies = mesh.data * mesh.context;
    const bool several_groups = mesh.expert > 1;  // experts are gathered among other ranks
    const auto microbatches = static_cast<double>(most_microbatches(plan));
    double least_state = std::numeric_limits<double>::infinity();
    for (std::int64_t stage = 0; stage < mesh.pipeline; ++stage) {
        LayerBytes blocks;
        double state = 0;
        for (const ChunkPart& part : chunk_parts(plan, stage)) {
            const LayerCounts layers = layer_counts(plan.model, part.first_layer, part.num_layers);
            blocks += memory.bytes.of(layers, false, false);
            state += memory.bytes.of(layers, part.embedding, part.head).optimizer;
        }
        least_state = std::min(least_state, state);
        if (!plan.shards_gradients() || several_groups || copies == 1) continue;
        const double sums =
            microbatches * operation_seconds(plan, "reduce_scatter", blocks.grads, hardware);
        // Backward finds the last blocks where forward left them: one gather is sure.
        const double rounds = plan.reshard ? microbatches : 1;
        const double gathers =
            plan.shards_weights()
                ? rounds * operation_seconds(plan, "all_gather", blocks.weights, hardware)
                : 0;
        seconds.messages = std::max({seconds.messages, sums, gathers});
    }
    const double link = hardware.device.copy_bandwidth;
    // Two of at least eight parts may come before the update (optim/state_windows.cpp).
    constexpr double waited_for = 6.0 / 8;
    const bool moves_all =
        plan.offload.optimizer && plan.offload.main_weights && !plan.parameters.muon;
    if (moves_all && link > 0) {
        const std::int64_t of_experts = mesh.expert > 1 ? copies * mesh.tensor / mesh.expert : 1;
        const std::int64_t owners = mesh.shard > 1 ? mesh.shard : std::max(copies, of_experts);
        const bool divided = plan.shard != Sharded::none;
        const double parts = divided ? static_cast<double>(owners) : 1;
        seconds.moves = waited_for * least_state / parts / link;
    }
    return seconds;
}

}  // namespace gptrain
