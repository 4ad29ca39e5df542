// The meshes that are compared with one rank, as data.
#pragma once

#include <string>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain::test {

/// A small model; its number of heads, groups, features and layers divide among up to 8 ranks.
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
};
/// Those of a number of ranks.
std::vector<MeshCase> mesh_cases(std::int64_t ranks);
/// Of these, in their order, the ones that have something that none before them has: an axis, a
/// pair of axes, a schedule, a way of cp, sequence parallelism, a model, a recompute mode, an
/// optimizer that is not sharded.
std::vector<MeshCase> covering(const std::vector<MeshCase>& cases);

}  // namespace gptrain::test
