// How a model is cut among the ranks of a mesh.
#pragma once

#include <vector>

#include "spec/run_plan.h"

namespace gptrain {

/// What one rank of tp has of the model: its heads, query groups (at least one, which several ranks
/// then share), feed-forward features, and rows of the vocabulary with padding, so that all have
/// equally many. Sizes that do not divide: Error (usage).
ModelShape local_shape(const ModelShape& model, std::int64_t tensor);

/// Layers of each chunk in the model's order, `chunks` numbers of at least 1: as given, or so that
/// the chunks take about equally long, the last one counted with the head.
std::vector<std::int64_t> split_layers(const RunSpec& spec, const ModelShape& model,
                                       std::int64_t chunks);

/// The schedule, the stages and the slices of the sequence fit the mesh and the model; else Error
/// (usage).
void check_parallel(const RunSpec& spec, const RunPlan& plan);

}  // namespace gptrain
