// How a model is split among the ranks of a mesh.
#pragma once

#include <vector>

#include "spec/run_plan.h"

namespace gptrain {

/// One tp rank's part of the model: its heads, query groups (at least one, which several ranks then
/// share), feed-forward features, and rows of the vocabulary, padded to the same number on all
/// ranks. Experts keep their width where ranks divide them (MeshShape::expert), and `count` is that
/// of the model. Sizes that do not divide are an Error (usage).
ModelShape local_shape(const ModelShape& model, const MeshShape& mesh);

/// The number of layers of each of `chunks` chunks, in the model's order, each at least 1: as the
/// spec gives them, or balanced so that chunks take about the same time, counting the head with the
/// last one.
std::vector<std::int64_t> split_layers(const RunSpec& spec, const ModelShape& model,
                                       std::int64_t chunks);

/// The number of pieces with `parallel.overlap_tensor: on`: 4 if each piece then has at least 2,048
/// tokens and the microbatch (its sequences or, for a single sequence, a rank's rows) divides by 4;
/// otherwise 2. According to the time model, more pieces hide more communication but lose as much
/// in GEMM efficiency. Error (usage) if nothing can be cut.
std::int64_t tensor_pieces(const RunPlan& plan);

/// Makes the plan's pieces those of ranks, if it has pieces of one sequence that divide among the
/// ranks of tp: where messages of tp are copies between GPUs, which hold no multiprocessor, many
/// small ones cost little.
void take_pieces_by_rank(RunPlan& plan);

/// How many microbatches of a step leave the head's weight gradient to its end
/// (RunPlan::deferred_heads): the smaller of these numbers:
///  - those whose gradients of the logits fit into the memory by which the last stage keeps fewer
///    activations than the first, so that no rank needs more than the first stage's. Where all
///    stages keep the same (gpipe, zero_bubble, one stage, offload.activations) it is 0;
///  - those whose weight gradients take, by their FLOPs, three quarters of the time in which the
///    last gradients travel from the last stage to the first.
std::int64_t deferred_heads(const RunPlan& plan);

/// Error (usage) unless the schedule, the stages and the slices of the sequence fit the mesh and
/// the model.
void check_parallel(const RunPlan& plan);

}  // namespace gptrain
