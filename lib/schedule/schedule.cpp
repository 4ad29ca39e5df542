#include "schedule/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/compute_order.h"
#include "schedule/lifetimes.h"
#include "schedule/messages.h"

namespace gptrain {
namespace {

Schedule complete(const PipelineShape& shape, std::int64_t stage, const OrderOf& order_of) {
    check_shape(shape);
    GPTRAIN_CHECK(stage >= 0 && stage < shape.stages, "stage ", stage, " of ", shape.stages);
    Schedule schedule;
    schedule.actions = with_messages(shape, stage, order_of);
    schedule.buffers = assign_buffers(shape, stage, schedule.actions);
    return schedule;
}

bool has_weight_actions(const std::vector<Action>& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& action) {
        return action.kind == ActionKind::backward_weights;
    });
}

Pipeline all_stages(const PipelineShape& shape, const auto& make) {
    Pipeline pipeline = {shape, {}};
    for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
        pipeline.stages.push_back(make(shape, stage));
    }
    return pipeline;
}

}  // namespace

Schedule make_schedule(const PipelineShape& shape, std::int64_t stage) {
    Schedule schedule =
        complete(shape, stage, [&](std::int64_t s) { return with_deferred_heads(shape, s); });
    schedule.deferred_heads = deferred_heads(shape, stage);
    schedule.slots = assign_slots(shape, schedule.actions);
    const std::int64_t in_head = max_in_head(shape, stage, schedule.actions);
    schedule.head_slots = in_head > 1 ? schedule.slots : in_head;
    schedule.defers_weights = has_weight_actions(schedule.actions);
    return schedule;
}

bool is_first(std::span<const Action> actions, std::size_t index) {
    const Action& action = actions[index];
    const std::span<const Action> earlier = actions.first(index);
    // The nearest is the first to be found.
    return std::none_of(earlier.rbegin(), earlier.rend(), [&](const Action& other) {
        return other.kind == action.kind && other.chunk == action.chunk;
    });
}

bool starts_gradients(std::span<const Action> actions, std::size_t index) {
    const ActionKind kind = actions[index].kind;
    return (kind == ActionKind::backward || kind == ActionKind::backward_weights) &&
           is_first(actions, index);
}

bool defers_weights(ScheduleKind kind) {
    return has_weight_actions(compute_order({.kind = kind}, 0));
}

Schedule make_forward_schedule(const PipelineShape& shape, std::int64_t stage) {
    Schedule schedule =
        complete(shape, stage, [&](std::int64_t s) { return forward_order(shape, s); });
    schedule.slots = 1;
    return schedule;
}

Pipeline make_pipeline(const PipelineShape& shape) {
    return all_stages(shape, make_schedule);
}

Pipeline make_forward_pipeline(const PipelineShape& shape) {
    return all_stages(shape, make_forward_schedule);
}

std::string to_text(const Schedule& schedule) {
    std::int64_t chunks = 1;
    for (const Action& action : schedule.actions) {
        chunks = std::max(chunks, action.chunk + 1);
    }
    std::string out;
    for (const Action& action : schedule.actions) {
        if (!out.empty()) out += ' ';
        out += to_text(action, chunks);
    }
    return out;
}

}  // namespace gptrain
