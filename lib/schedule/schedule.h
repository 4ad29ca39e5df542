// Pipeline schedules as data: pure functions return a stage's actions in order. The executor runs
// the list, the meter measures its cost, the planner simulates and draws it, tests check it.
//
// Messages. A chunk passes its output to its neighbour in the model in a boundary buffer: the
// activations that leave F, or the gradient that leaves BW or B. All boundary buffers of a stage
// have one size and serve any chunk and both directions. Neighbours on different stages exchange
// the buffer: a send follows the action that filled it; a receive is posted before the action that
// precedes its use, so that it arrives during that action, or right before its use if it depends on
// that action. Both return at once. Neighbours on one stage (at the turn of ZB-V, or in a pipeline
// of one stage) need no message: one writes the buffer that the other reads.
//
// A buffer has at most one message in flight. Whatever uses the buffer next waits for it: the
// action that reads what was received, or the action that overwrites what was sent. Nothing else
// waits.
//
// Between two stages, receives are in the order of the sends, activations and gradients together.
// So correctness does not depend on the number of communicators, on sends that complete before
// their receive is posted, or on several messages in flight between two stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/action.h"
#include "schedule/pipeline_shape.h"

namespace gptrain {

struct Schedule {
    std::vector<Action> actions;
    /// Slots for saved activations. A slot is taken at F and freed after BW, or after W if weights
    /// are deferred. It serves any chunk of the stage, so it has the size of the largest.
    std::int64_t slots = 0;
    /// Slots for what the head keeps from F to BW or B: none on stages without the head, one if
    /// at most one microbatch is in the head at a time, else one for each slot.
    std::int64_t head_slots = 0;
    std::int64_t deferred_heads = 0;  ///< WH, each with its own memory
    std::int64_t buffers = 0;         ///< boundary buffers
    bool defers_weights = false;      ///< has B and W instead of BW
};

/// The actions of a step on stage s of p, with m microbatches and v virtual stages:
///
/// gpipe: all F, then all BW, last microbatch first (Huang et al. 2019). m slots.
///
/// 1f1b: 1F1B with flush (Narayanan et al. 2021, arXiv 2104.04473): p - 1 - s times F, then F and
/// BW alternate. min(m, p - s) slots.
///
/// interleaved_1f1b (same source): microbatches go in groups of p through all chunks of a stage in
/// turn, with 2(p - 1 - s) + (v - 1)p times F first. If p does not divide m, the last group is
/// smaller: it keeps the order of a full group minus the missing microbatches, so it adds no waits
/// and takes no longer than a full group. At most min(mv, 2(p - 1 - s) + (v - 1)p + 1) slots. v = 1
/// is 1F1B.
///
/// zero_bubble: ZB-H1, or ZB-V with 2 virtual stages (Qi et al. 2024, arXiv 2401.10241). Splitting
/// BW into B and W lets W fill idle time. ZB-H1 has the order of 1F1B, and on stage s each W comes
/// s microbatches after its B; every stage then holds at most min(m, p) microbatches, the most that
/// 1F1B holds on any stage. ZB-V needs the same memory: 2p slots of half a stage.
///
/// In each of them the stage with the head is the longest, and waits at the end of the step while
/// the last gradients travel to the first stage. The last shape.deferred_heads microbatches leave
/// the head's weight gradient until then (WH). All weight gradients are still added in the order of
/// microbatches.
Schedule make_schedule(const PipelineShape& shape, std::int64_t stage);

/// True if the step's earlier actions have none of this kind for this chunk.
bool is_first(std::span<const Action> actions, std::size_t index);
/// True if the action computes the first weight gradients of its chunk in the step. The head's,
/// which F or WH computes, do not count.
bool starts_gradients(std::span<const Action> actions, std::size_t index);

/// True if schedules of this kind have B and W instead of BW.
bool defers_weights(ScheduleKind kind);

/// The actions of an evaluation: F only, with nothing kept (one slot).
Schedule make_forward_schedule(const PipelineShape& shape, std::int64_t stage);

struct Pipeline {
    PipelineShape shape;
    std::vector<Schedule> stages;
};

/// The schedules of all stages.
Pipeline make_pipeline(const PipelineShape& shape);
Pipeline make_forward_pipeline(const PipelineShape& shape);

/// The texts of all actions, "RF0<0 F0 SF0>2 RB0<2 BW0 SB0>0".
std::string to_text(const Schedule& schedule);

}  // namespace gptrain
