// What a step costs on every rank of a mesh.
#pragma once

#include <vector>

#include "train/engine.h"

namespace gptrain {

/// Ranks of which one stands for all: they are of the same stage, and hold and update parts of the
/// same sizes, so that their runs issue the same operations with the same sizes and take the same
/// memory (test/planner executes every rank of the large specs and compares).
struct RankClass {
    int stage = 0;
    std::vector<std::int64_t> ranks;  ///< of the world, ascending
};

/// In the order of their first ranks.
std::vector<RankClass> rank_classes(const RunSpec& spec, const RunPlan& plan);

struct RankCost {
    RankClass of;
    StepCost cost;
};

/// Runs the first rank of each class over the meter, some at a time on threads of their own.
/// `needs` are those of the backend to be used.
std::vector<RankCost> measure_mesh(const RunSpec& spec, const RunPlan& plan,
                                   const BackendNeeds& needs);

/// Bytes that a rank sends in a step on one axis of the mesh: tp, cp, dp or pp, which the other
/// communicators count as (CommMetrics).
std::int64_t sent_on(Axis axis, const StepCost& cost, const MeshShape& mesh);

}  // namespace gptrain
