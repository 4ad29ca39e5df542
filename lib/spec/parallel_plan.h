// How a model is split among the ranks of a mesh.
#pragma once

#include <vector>

#include "spec/run_plan.h"

namespace gptrain {

/// One tp rank's part of the model: its heads, query groups (at least one, which several ranks then
/// share), feed-forward features, and rows of the vocabulary, padded to the same number on all
/// ranks. Sizes that do not divide are an Error (usage).
ModelShape local_shape(const ModelShape& model, std::int64_t tensor);

/// The number of layers of each of `chunks` chunks, in the model's order, each at least 1: as the
/// spec gives them, or balanced so that chunks take about the same time, counting the head with the
/// last one.
std::vector<std::int64_t> split_layers(const RunSpec& spec, const ModelShape& model,
                                       std::int64_t chunks);

/// Error (usage) unless the schedule, the stages and the slices of the sequence fit the mesh and
/// the model.
void check_parallel(const RunPlan& plan);

}  // namespace gptrain
