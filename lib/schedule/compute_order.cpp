#include "schedule/compute_order.h"

#include <algorithm>

#include "base/at.h"
#include "base/error.h"

namespace gptrain {

ComputeOrder::ComputeOrder(const PipelineShape& shape)
    : microbatches_(shape.microbatches),
      counts_(static_cast<std::size_t>(ActionKind::backward_weights) + 1,
              std::vector<std::int64_t>(static_cast<std::size_t>(shape.virtual_stages))) {}

void ComputeOrder::next(ActionKind kind, std::int64_t chunk) {
    const std::int64_t microbatch = at(at(counts_, kind), chunk)++;
    if (microbatch < microbatches_)
        actions_.push_back({.kind = kind, .microbatch = microbatch, .chunk = chunk});
}

void ComputeOrder::next(std::initializer_list<ActionKind> kinds, std::int64_t chunk) {
    for (const ActionKind kind : kinds)
        next(kind, chunk);
}

std::vector<Action> compute_order(const PipelineShape& shape, std::int64_t stage) {
    switch (shape.kind) {
        case ScheduleKind::gpipe: return gpipe_order(shape);
        case ScheduleKind::one_f_one_b:
        case ScheduleKind::interleaved_one_f_one_b: return one_f_one_b_order(shape, stage);
        case ScheduleKind::zero_bubble:
            return shape.is_v() ? zero_bubble_v_order(shape, stage)
                                : zero_bubble_order(shape, stage);
    }
    fail(ExitCode::bug, "no such schedule");
}

std::int64_t deferred_heads(const PipelineShape& shape, std::int64_t stage) {
    if (head_place(shape).stage != stage) return 0;
    return std::min(shape.deferred_heads, shape.microbatches);
}

std::vector<Action> with_deferred_heads(const PipelineShape& shape, std::int64_t stage) {
    std::vector<Action> order = compute_order(shape, stage);
    const std::int64_t count = deferred_heads(shape, stage);
    if (count == 0) return order;
    const std::int64_t chunk = head_place(shape).chunk;
    const std::int64_t first = shape.microbatches - count;
    for (Action& action : order) {
        const bool defers = action.kind == ActionKind::forward && action.chunk == chunk;
        if (defers && action.microbatch >= first) action.deferred_head = action.microbatch - first;
    }
    for (std::int64_t i = 0; i < count; ++i) {
        order.push_back({.kind = ActionKind::head_weights,
                         .microbatch = first + i,
                         .chunk = chunk,
                         .deferred_head = i});
    }
    return order;
}

std::vector<Action> forward_order(const PipelineShape& shape, std::int64_t stage) {
    std::vector<Action> forward;
    for (const Action& action : compute_order(shape, stage)) {
        if (action.kind == ActionKind::forward) forward.push_back(action);
    }
    return forward;
}

}  // namespace gptrain
