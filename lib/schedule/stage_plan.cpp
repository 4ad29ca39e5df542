#include "schedule/stage_plan.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace gptrain {

PipelineShape pipeline_of(const RunPlan& plan, std::int64_t microbatches) {
    return {.kind = plan.schedule,
            .stages = plan.mesh.pipeline,
            .virtual_stages = plan.virtual_stages,
            .microbatches = microbatches};
}

std::vector<ChunkPart> chunk_parts(const RunPlan& plan, std::int64_t stage) {
    const PipelineShape shape = pipeline_of(plan, 1);
    std::vector<ChunkPart> parts;
    for (std::int64_t chunk = 0; chunk < shape.virtual_stages; ++chunk) {
        const std::int64_t position = position_of(shape, {stage, chunk});
        const auto own = plan.layers.begin() + position;
        parts.push_back({.first_layer = std::accumulate(plan.layers.begin(), own, std::int64_t{0}),
                         .num_layers = *own,
                         .embedding = position == 0,
                         .head = position == shape.positions() - 1});
    }
    return parts;
}

bool has_tied_ends(const RunPlan& plan) {
    const PipelineShape shape = pipeline_of(plan, 1);
    return plan.model.tie_embeddings &&
           place_at(shape, 0).stage != place_at(shape, shape.positions() - 1).stage;
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
    for (std::int64_t position = 0; position + 1 < shape.positions(); ++position) {
        const std::int64_t before = place_at(shape, position).stage;
        const std::int64_t after = place_at(shape, position + 1).stage;
        connect(before, after);
        connect(after, before);
    }
    return channels;
}

}  // namespace

MeshConnections mesh_connections(const RunPlan& plan) {
    return {.kv_sharers = std::max<std::int64_t>(plan.mesh.tensor / plan.model.groups, 1),
            .split_tied_embedding = has_tied_ends(plan),
            .channels = channels_of(pipeline_of(plan, 1))};
}

}  // namespace gptrain
