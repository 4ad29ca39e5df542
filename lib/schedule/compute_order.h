// The order of F, BW, B and W on a stage: what differs between schedules. Messages, slots and
// buffers follow from it (messages.h).
#pragma once

#include <initializer_list>
#include <utility>

#include "schedule/schedule.h"

namespace gptrain {

/// An order under construction.
class ComputeOrder {
public:
    explicit ComputeOrder(const PipelineShape& shape);

    /// Appends the action for the next microbatch of that kind and chunk. A microbatch that the
    /// step does not have is counted and left out: orders may be made for more of them than there
    /// are, because an action waits only for actions of its own microbatch.
    void next(ActionKind kind, std::int64_t chunk = 0);
    void next(std::initializer_list<ActionKind> kinds, std::int64_t chunk = 0);
    void append(const Action& action) { actions_.push_back(action); }

    std::vector<Action> take() { return std::move(actions_); }

private:
    std::int64_t microbatches_;
    std::vector<std::vector<std::int64_t>> counts_;  ///< by kind and chunk
    std::vector<Action> actions_;
};

/// The actions of a training step on a stage, by schedule kind; without messages.
std::vector<Action> compute_order(const PipelineShape& shape, std::int64_t stage);
/// F of the same, for an evaluation: no F waits for anything else.
std::vector<Action> forward_order(const PipelineShape& shape, std::int64_t stage);

std::vector<Action> gpipe_order(const PipelineShape& shape);
/// 1F1B with one chunk, interleaved 1F1B with more.
std::vector<Action> one_f_one_b_order(const PipelineShape& shape, std::int64_t stage);
std::vector<Action> zero_bubble_order(const PipelineShape& shape, std::int64_t stage);
std::vector<Action> zero_bubble_v_order(const PipelineShape& shape, std::int64_t stage);

}  // namespace gptrain
