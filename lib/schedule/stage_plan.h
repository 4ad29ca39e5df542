// How a plan's model and schedule lie on the stages of its mesh.
#pragma once

#include <vector>

#include "comm/mesh.h"
#include "model/layout.h"
#include "schedule/pipeline_shape.h"

namespace gptrain {

/// The pipeline of a step with so many microbatches on a data rank.
PipelineShape pipeline_of(const RunPlan& plan, std::int64_t microbatches);

/// The chunks of a stage, in the model's order.
std::vector<ChunkPart> chunk_parts(const RunPlan& plan, std::int64_t stage);

/// Whether the embedding is tied and its two ends lie on different stages.
bool has_tied_ends(const RunPlan& plan);

/// What the model and the schedule ask of the mesh.
MeshLinks mesh_links(const RunPlan& plan);

}  // namespace gptrain
