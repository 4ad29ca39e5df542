#include "engine/rank_training.h"

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
        if (plan.optimizer.shard) sharing.owners = sums;
        return sharing;
    };
    const Sharing all = over(Axis::dp_cp);
    const Sharing experts = plan.mesh.expert > 1 ? over(Axis::expert_copies) : all;
    request.sharing = [=](const TensorGroup& group) { return group.of_experts() ? experts : all; };
    // Sums in a dtype other than fp32 are computed in parts, by all ranks.
    request.divides_sums = plan.grad_reduce != DType::f32;
    request.fp8 = plan.fp8;
    request.quantised = {.format = quantised_format(plan)};
    request.whole_chunks = plan.reduces_whole_chunks();
    request.defers_head = plan.deferred_heads > 0;
    request.rules = plan.parameters;
    request.overwrites_gradients = plan.overwrites_gradients;
    request.whole_parameters = plan.parameters.muon;
    return make_layout(request);
}

}  // namespace gptrain
