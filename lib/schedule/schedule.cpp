#include "schedule/schedule.h"

#include "base/error.h"

namespace gptrain {
namespace {

Schedule gpipe(std::int64_t microbatches) {
    Schedule schedule{{}, microbatches, false};
    for (std::int64_t m = 0; m < microbatches; ++m) {
        schedule.actions.push_back({ActionKind::forward, m, m});
    }
    for (std::int64_t m = microbatches; m-- > 0;) {
        schedule.actions.push_back({ActionKind::backward, m, m});
    }
    return schedule;
}

/// Each microbatch runs through all of `kinds` before the next one starts.
Schedule one_at_a_time(std::int64_t microbatches, std::initializer_list<ActionKind> kinds) {
    Schedule schedule{{}, 1, kinds.size() > 2};
    for (std::int64_t m = 0; m < microbatches; ++m) {
        for (const ActionKind kind : kinds)
            schedule.actions.push_back({kind, m, 0});
    }
    return schedule;
}

}  // namespace

Schedule make_schedule(ScheduleKind kind, std::int64_t microbatches) {
    using enum ActionKind;
    switch (kind) {
        case ScheduleKind::gpipe: return gpipe(microbatches);
        case ScheduleKind::one_f_one_b: return one_at_a_time(microbatches, {forward, backward});
        case ScheduleKind::zero_bubble:
            return one_at_a_time(microbatches, {forward, backward_inputs, backward_weights});
        case ScheduleKind::interleaved_one_f_one_b: break;
    }
    fail(ExitCode::bug, "no schedule ", name_of(kind), " on one stage");
}

std::string_view name_of(ActionKind kind) {
    switch (kind) {
        case ActionKind::forward: return "F";
        case ActionKind::backward: return "BW";
        case ActionKind::backward_inputs: return "B";
        case ActionKind::backward_weights: return "W";
    }
    return "?";
}

std::string to_text(const Schedule& schedule) {
    std::string out;
    for (const Action& action : schedule.actions) {
        if (!out.empty()) out += ' ';
        out += name_of(action.kind);
        append(out, action.microbatch);
    }
    return out;
}

}  // namespace gptrain
