// The cost of a step on every rank of a mesh.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/measure.h"

namespace gptrain {

/// The largest mesh that can be planned: the time to sort ranks into classes grows with their
/// number.
constexpr std::int64_t max_planned_ranks = std::int64_t{1} << 18;

/// Ranks with the same cost: they have the same stage and as many microbatches, and hold and update
/// parts of the same sizes, so they issue the same operations with the same sizes and take the same
/// memory (test/planner executes every rank of the large specs and compares). In a ring of cp with
/// windows they also have the same slices of the sequence, which see different numbers of keys.
struct RankClass {
    int stage = 0;
    std::vector<std::int64_t> ranks;  ///< world ranks, ascending
};

/// Sorted by first rank.
std::vector<RankClass> rank_classes(const RunPlan& plan);

struct RankCost {
    RankClass rank_class;
    StepCost cost;
};

/// Runs the first rank of each class on the meter, several at a time on their own threads. `needs`
/// are those of the target backend.
std::vector<RankCost> measure_mesh(const RunPlan& plan, const BackendMemory& needs);

/// The rank of a stage with the most microbatches and the most visible keys.
MeshPlace busiest_rank(const RunPlan& plan, std::int64_t stage);

/// The trace of a step on the busiest rank of each stage.
std::vector<StepTrace> trace_stages(const RunPlan& plan, const BackendMemory& needs);

/// Bytes that a rank sends in a step on one mesh axis: tp, cp, dp or pp. Other communicators count
/// as one of these (CommMetrics).
std::int64_t sent_bytes(Axis axis, const StepCost& cost, const MeshShape& mesh);

/// The most that any of the ranks sends.
std::int64_t max_sent_bytes(std::span<const RankCost> ranks, Axis axis, const MeshShape& mesh);

}  // namespace gptrain
