// The order of F, BW, B, W and WH on a stage, which is all that differs between schedules.
// Messages, slots and buffers follow from it (messages.h, lifetimes.h).
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "schedule/action.h"
#include "schedule/pipeline_shape.h"

namespace gptrain {

/// Builds an order.
class ComputeOrder {
public:
    explicit ComputeOrder(const PipelineShape& shape);

    /// Appends the action for the next microbatch of that kind and chunk. Microbatch numbers beyond
    /// the step's last are consumed but emit no action. An order may therefore be written for more
    /// microbatches than the step has, because actions depend only on actions of the same
    /// microbatch.
    void next(ActionKind kind, std::int64_t chunk = 0);
    void next(std::initializer_list<ActionKind> kinds, std::int64_t chunk = 0);
    void append(const Action& action) { actions_.push_back(action); }

    std::vector<Action> take() { return std::move(actions_); }

private:
    std::int64_t microbatches_;
    std::vector<std::vector<std::int64_t>> counts_;  ///< [kind][chunk]
    std::vector<Action> actions_;
};

/// The compute actions of a training step on a stage, without messages.
std::vector<Action> compute_order(const PipelineShape& shape, std::int64_t stage);
/// The microbatches whose head's weight gradient a stage defers: none on stages without the head.
std::int64_t deferred_heads(const PipelineShape& shape, std::int64_t stage);
/// The compute order with the WH at its end.
std::vector<Action> with_deferred_heads(const PipelineShape& shape, std::int64_t stage);
/// Only the F of that order, for an evaluation. No F waits for another kind of action.
std::vector<Action> forward_order(const PipelineShape& shape, std::int64_t stage);

std::vector<Action> gpipe_order(const PipelineShape& shape);
/// 1F1B with one chunk, interleaved 1F1B with more.
std::vector<Action> one_f_one_b_order(const PipelineShape& shape, std::int64_t stage);
std::vector<Action> zero_bubble_order(const PipelineShape& shape, std::int64_t stage);
std::vector<Action> zero_bubble_v_order(const PipelineShape& shape, std::int64_t stage);

}  // namespace gptrain
