#include "engine/rank_training.h"

#include "engine/rank_model.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

/// The number of parts that buckets are split into. If gradients are not reduced in fp32, they are
/// reduced in parts even if the optimizer is not sharded.
std::int64_t bucket_parts(const RunPlan& plan, const Mesh& mesh) {
    return plan.grad_reduce == DType::f32 ? shard_count(plan, mesh) : mesh.dp_cp().size();
}

}  // namespace

std::int64_t most_microbatches(const RunPlan& plan, const MeshPlace& place) {
    return plan.microbatches(plan.batch.global_batch_size, place.dp);
}

Schedule largest_schedule(const RunPlan& plan, const MeshPlace& place) {
    return make_schedule(pipeline_of(plan, most_microbatches(plan, place)), place.pp);
}

std::int64_t shard_count(const RunPlan& plan, const Mesh& mesh) {
    return plan.optimizer.shard ? mesh.dp_cp().size() : 1;
}

ParameterLayout training_layout(const RunPlan& plan, const Mesh& mesh) {
    LayoutRequest request = layout_request(plan, mesh.place());
    request.shards = bucket_parts(plan, mesh);
    request.fp8 = plan.fp8;
    if (plan.int8_frozen) request.int8 = Int8Matrices::frozen;
    request.whole_chunks = plan.reduces_whole_chunks();
    request.defers_head = plan.deferred_heads > 0;
    request.rules = plan.parameters;
    request.overwrites_gradients = plan.overwrites_gradients;
    request.whole_parameters = plan.parameters.muon && shard_count(plan, mesh) > 1;
    return make_layout(request);
}

}  // namespace gptrain
