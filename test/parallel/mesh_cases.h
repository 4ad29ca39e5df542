// The meshes that are compared with one rank, as data.
#pragma once

#include <string>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain::test {

/// A small model whose heads, groups, features and layers divide among up to 8 ranks.
struct Model {
    std::string name;
    RunSpec spec;
};
/// GPT-2's parts with a tied head, Llama's with grouped queries and an untied one, and mixtures.
std::vector<Model> models();

struct MeshCase {
    std::string name;
    std::string model;
    ParallelSpec parallel;
    Recompute recompute = Recompute::selective;
    std::int64_t micro_batch_size = 2;
    bool messages_in_order = false;  ///< as on CUDA (RunPlan)
    /// model.experts.load: with 1 some messages are too short, with 8 none.
    double load = 8;
};
/// The cases for this number of ranks.
std::vector<MeshCase> mesh_cases(std::int64_t ranks);
bool has_three_axes(const MeshCase& mesh_case);
/// The cases of these that cover something new, in order: an axis, a pair of axes, a schedule, a cp
/// method, sequence parallelism, a model, a recompute mode, an optimizer that is not sharded.
std::vector<MeshCase> covering(const std::vector<MeshCase>& cases);
/// The same, but where ranks divide the optimizer's state alone, they divide weights or gradients
/// as well, if the schedule allows it: the cp ranks of each data rank, or else all that there are.
std::vector<MeshCase> dividing_more(std::vector<MeshCase> cases);

}  // namespace gptrain::test
