#include "schedule/stage_plan.h"

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "base/checked.h"

namespace gptrain {

PipelineShape pipeline_of(const RunPlan& plan, std::int64_t microbatches) {
    return {.kind = plan.schedule,
            .stages = plan.mesh.pipeline,
            .virtual_stages = plan.virtual_stages,
            .microbatches = microbatches,
            .deferred_heads = plan.deferred_heads};
}

std::vector<ChunkPart> chunk_parts(const RunPlan& plan, std::int64_t stage) {
    const PipelineShape shape = pipeline_of(plan, 1);
    std::vector<ChunkPart> parts;
    for (std::int64_t chunk = 0; chunk < shape.virtual_stages; ++chunk) {
        const ChunkPlace place = {stage, chunk};
        const std::int64_t model_chunk = model_chunk_at(shape, place);
        const auto own = plan.chunk_layers.begin() + model_chunk;
        const std::int64_t before =
            std::accumulate(plan.chunk_layers.begin(), own, std::int64_t{0});
        parts.push_back({.first_layer = before,
                         .num_layers = *own,
                         .embedding = model_chunk == 0,
                         .head = place == head_place(shape)});
    }
    return parts;
}

bool has_tied_ends(const RunPlan& plan) {
    const PipelineShape shape = pipeline_of(plan, 1);
    return plan.model.tie_embeddings && place_at(shape, 0).stage != head_place(shape).stage;
}

namespace {

/// The channels between neighbours in the model, without repeats: activations go one way, their
/// gradients the other.
std::vector<Channel> channels_of(const PipelineShape& shape) {
    std::vector<Channel> channels;
    const auto connect = [&](std::int64_t from, std::int64_t to) {
        const Channel channel = {narrow<int>(from), narrow<int>(to)};
        const bool there = std::find(channels.begin(), channels.end(), channel) != channels.end();
        if (from != to && !there) channels.push_back(channel);
    };
    for (std::int64_t chunk = 0; chunk + 1 < shape.model_chunks(); ++chunk) {
        const std::int64_t before = place_at(shape, chunk).stage;
        const std::int64_t after = place_at(shape, chunk + 1).stage;
        connect(before, after);
        connect(after, before);
    }
    return channels;
}

/// The messages of the model, the sums of gradients and the optimizer on each axis, and on parts of
/// one. Stages use channels, and tp x pp; data ranks use dp x cp. Rows of tokens travel between the
/// ranks that divide the experts, if there are any.
std::array<Traffic, axes> traffic_of(const RunPlan& plan) {
    constexpr Traffic none = {
        .collectives = false, .ring = false, .all_pairs = false, .one_way = false};
    std::array<Traffic, axes> traffic;
    traffic.fill({.ring = false, .all_pairs = false, .one_way = false});
    const bool ring = plan.context_method == ContextMethod::ring;
    // Routers sum over the ranks with parts of a sequence.
    at(traffic, Axis::cp) = {.collectives = !ring || plan.model.experts.has_value(),
                             .ring = ring,
                             .all_pairs = !ring,
                             .one_way = false};
    // Slices travel from rank to rank.
    at(traffic, Axis::tp).ring = at(traffic, Axis::model).ring = plan.pieces_by_rank;
    for (const Axis axis : {Axis::dp, Axis::pp, Axis::tokens})
        at(traffic, axis) = none;
    at(traffic, Axis::dp_cp).all_pairs = plan.grad_reduce != DType::f32;
    for (const SubAxis& part : sub_axes)
        at(traffic, part.axis) = at(traffic, part.parent);
    // Without groups of owners dp x cp has their messages.
    if (plan.mesh.shard == 1) at(traffic, Axis::shard) = at(traffic, Axis::shard_copies) = none;
    if (plan.mesh.expert > 1) {
        at(traffic, Axis::experts).all_pairs = true;
        at(traffic, Axis::expert_copies) = at(traffic, Axis::dp_cp);
    }
    return traffic;
}

}  // namespace

MeshConnections mesh_connections(const RunPlan& plan) {
    return {.split_tied_embedding = has_tied_ends(plan),
            .channels = channels_of(pipeline_of(plan, 1)),
            .traffic = traffic_of(plan),
            .head_stage = narrow<int>(head_place(pipeline_of(plan, 1)).stage)};
}

}  // namespace gptrain
