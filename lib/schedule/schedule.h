// Pipeline schedules as data: pure functions that return the actions of a stage in order. The
// executor runs the list, the meter prices it, tests read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain {

enum class ActionKind {
    forward,           ///< F
    backward,          ///< BW: input and weight gradients
    backward_inputs,   ///< B: what earlier layers wait for
    backward_weights,  ///< W: the weight gradients that B left out
};

std::string_view name_of(ActionKind kind);

struct Action {
    ActionKind kind;
    std::int64_t microbatch;
    std::int64_t slot;  ///< where the microbatch's activations are kept
    bool operator==(const Action&) const = default;
};

struct Schedule {
    std::vector<Action> actions;
    std::int64_t slots = 0;
    bool defers_weights = false;  ///< it has B and W
};

/// The actions of a stage that holds the whole model.
/// gpipe: all F, then all BW, last microbatch first (Huang et al. 2019). 1f1b: each F is followed
/// by its BW. zero_bubble: F, B, W (Qi et al. 2024, arXiv 2401.10241).
Schedule make_schedule(ScheduleKind kind, std::int64_t microbatches);

/// "F0 BW0 F1 BW1"
std::string to_text(const Schedule& schedule);

}  // namespace gptrain
