// Pipeline schedules as data: pure functions that return the actions of a stage in order. The
// executor runs the list, the meter prices it, the planner simulates and draws it, tests read it.
//
// Messages. What a chunk computes for its neighbour in the model lies in a boundary buffer: the
// activations that leave F, the gradient that leaves BW or B. All boundary buffers of a stage have
// one size and serve any chunk and both directions. Neighbours on different stages exchange the
// buffer: a send follows the action that filled it; a receive is posted before the action that
// precedes its use, so that it arrives while that one computes. Both return at once. Neighbours on
// one stage (the turn of ZB-V, a pipeline of one stage) need no message: one writes the buffer that
// the other reads.
//
// A buffer has at most one message under way. Whatever touches the buffer next waits for it: the
// action that reads what was received, the action that writes over what was sent. Nothing else
// waits.
//
// From one stage to another the receives stand in the order of the sends, activations and gradients
// together. So nothing depends on how many communicators carry them, on sends that end only once
// their receive is posted, or on more than one message being under way between two stages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/pipeline_shape.h"

namespace gptrain {

enum class ActionKind {
    forward,              ///< F
    backward,             ///< BW: input and weight gradients
    backward_inputs,      ///< B: what earlier layers wait for
    backward_weights,     ///< W: the weight gradients that B left out
    send_activations,     ///< to the chunk that follows
    receive_activations,  ///< from the chunk before
    send_gradients,       ///< to the chunk before
    receive_gradients,    ///< from the chunk that follows
};

std::string_view name_of(ActionKind kind);

/// F, BW, B or W.
constexpr bool computes(ActionKind kind) {
    return kind <= ActionKind::backward_weights;
}
constexpr bool sends(ActionKind kind) {
    return kind == ActionKind::send_activations || kind == ActionKind::send_gradients;
}

struct Action {
    static constexpr std::int64_t none = -1;

    ActionKind kind;
    std::int64_t microbatch;
    std::int64_t chunk = 0;  ///< of this stage; of a message the chunk that writes or reads it
    std::int64_t slot = 0;   ///< where the microbatch's activations are kept; not in messages
    /// The boundary buffer that F, BW or B reads, or that a receive fills. None at the model's end.
    std::int64_t input = none;
    /// The boundary buffer that F, BW or B writes, or that is sent. None at the model's end.
    std::int64_t output = none;
    std::int64_t peer = none;  ///< the other stage of a message

    bool operator==(const Action&) const = default;
};

struct Schedule {
    std::vector<Action> actions;
    /// Slots of saved activations. A slot is taken at F and free after BW, or after W where that is
    /// deferred; it serves any chunk of the stage, so it has the size of the largest.
    std::int64_t slots = 0;
    /// Places for what the head keeps from F to BW or B: none where the head is not, one where no F
    /// comes between, else one for each slot.
    std::int64_t heads = 0;
    std::int64_t buffers = 0;     ///< boundary buffers
    bool defers_weights = false;  ///< it has B and W
};

/// The actions of a step on one stage.
///
/// gpipe: all F, then all BW, last microbatch first (Huang et al. 2019). m slots.
///
/// 1f1b: 1F1B with flush (Narayanan et al. 2021, arXiv 2104.04473): p - 1 - s times F, then F and
/// BW in turn. min(m, p - s) slots.
///
/// interleaved_1f1b (same source): microbatches in groups of p, each group through all chunks of a
/// stage in turn, 2(p - 1 - s) + (v - 1)p times F first. Where p does not divide m the last group
/// is smaller: its order is that of a whole group without the microbatches that are not there, so
/// that nothing waits for more, and it takes no longer than a whole one. At most
/// min(mv, 2(p - 1 - s) + (v - 1)p + 1) slots. v = 1 is 1F1B.
///
/// zero_bubble: ZB-H1, with 2 virtual stages ZB-V (Qi et al. 2024, arXiv 2401.10241). B and W apart
/// let W fill what would be idle. ZB-H1 has the order of 1F1B and on stage s each W stands s
/// microbatches behind its B, so that every stage holds at most min(m, p), 1F1B's most. ZB-V needs
/// the same: 2p slots of half a stage.
Schedule make_schedule(const PipelineShape& shape, std::int64_t stage);

/// The actions of an evaluation: F alone, whose activations are not kept (one slot).
Schedule make_forward_schedule(const PipelineShape& shape, std::int64_t stage);

struct Pipeline {
    PipelineShape shape;
    std::vector<Schedule> stages;
};

/// The lists of all stages.
Pipeline make_pipeline(const PipelineShape& shape);
Pipeline make_forward_pipeline(const PipelineShape& shape);

/// "RF0<0 F0 SF0>2 RB0<2 BW0 SB0>0": kind, microbatch, and the other stage of a message. `chunks`
/// above 1 add the chunk: "F0.1" is microbatch 0 of chunk 1.
std::string to_text(const Action& action, std::int64_t chunks);
std::string to_text(const Schedule& schedule);

}  // namespace gptrain
