// Maps a plan's model and schedule onto the stages of its mesh.
#pragma once

#include <vector>

#include "comm/mesh.h"
#include "model/layout.h"
#include "schedule/pipeline_shape.h"

namespace gptrain {

/// The pipeline of a step with `microbatches` on each data rank.
PipelineShape pipeline_of(const RunPlan& plan, std::int64_t microbatches);

/// The chunks of a stage, in the model's order.
std::vector<ChunkPart> chunk_parts(const RunPlan& plan, std::int64_t stage);

/// True if the embedding is tied and its two ends are on different stages.
bool has_tied_ends(const RunPlan& plan);

/// The extra connections that model and schedule need from the mesh.
MeshConnections mesh_connections(const RunPlan& plan);

}  // namespace gptrain
