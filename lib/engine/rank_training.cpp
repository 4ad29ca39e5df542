#include "engine/rank_training.h"

#include "base/dynamic8.h"
#include "engine/rank_model.h"
#include "schedule/stage_plan.h"

namespace gptrain {
std::int64_t most_microbatches(const RunPlan& plan, const MeshPlace& place) {
    return plan.microbatches(plan.batch.global_batch_size, place.dp);
}

Schedule largest_schedule(const RunPlan& plan, const MeshPlace& place) {
    return make_schedule(pipeline_of(plan, most_microbatches(plan, place)), place.pp);
}

ParameterLayout training_layout(const RunPlan& plan, const Mesh& mesh) {
    LayoutRequest request = layout_request(plan, mesh.place());
    const auto over = [&](Axis sums) {
        Sharing sharing = {.sums = sums};
        if (plan.shard != Sharded::none) sharing.owners = sums;
        if (plan.shard != Sharded::none && sums == Axis::dp_cp && plan.mesh.shard > 1) {
            sharing.owners = Axis::shard;
            sharing.copies = Axis::shard_copies;
        }
        return sharing;
    };
    const Sharing all = over(Axis::dp_cp);
    const Sharing experts = plan.mesh.expert > 1 ? over(Axis::expert_copies) : all;
    request.sharing = [=](const TensorGroup& group) { return group.of_experts() ? experts : all; };
    // Sums in a dtype other than fp32 are computed in parts, by all ranks.
    request.divides_sums = plan.grad_reduce != DType::f32;
    // Blocks of 8-bit moments belong whole to one owner.
    if (plan.optimizer.state == MomentFormat::eight_bit) request.alignment = moment_block;
    request.fp8 = plan.fp8;
    request.fp8_blocks = plan.fp8_blocks;
    request.quantised = {.format = quantised_format(plan)};
    request.whole_chunks = plan.reduces_whole_chunks();
    request.by_units = plan.shards_gradients();
    request.divides_frozen = plan.shards_weights();
    request.gathers_fp8 = plan.shards_weights() && plan.fp8 && !plan.fp8_blocks;
    request.defers_head = plan.deferred_heads > 0;
    request.rules = plan.parameters;
    request.overwrites_gradients = plan.overwrites_gradients;
    request.whole_parameters = plan.parameters.muon;
    return make_layout(request);
}

std::optional<Placement> training_placement(const RunPlan& plan, const Mesh& mesh) {
    if (!plan.shards_gradients()) return {};
    return divided_placement(training_layout(plan, mesh), mesh,
                             {.weights = plan.shards_weights(), .reshard = plan.reshard});
}

}  // namespace gptrain
