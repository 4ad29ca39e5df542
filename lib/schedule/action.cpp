#include "schedule/action.h"

#include "base/text.h"

namespace gptrain {

std::string_view name_of(ActionKind kind) {
    switch (kind) {
        case ActionKind::forward: return "F";
        case ActionKind::backward: return "BW";
        case ActionKind::backward_inputs: return "B";
        case ActionKind::backward_weights: return "W";
        case ActionKind::head_weights: return "WH";
        case ActionKind::send_activations: return "SF";
        case ActionKind::receive_activations: return "RF";
        case ActionKind::send_gradients: return "SB";
        case ActionKind::receive_gradients: return "RB";
    }
    return "?";
}

std::string to_text(const Action& action, std::int64_t chunks) {
    std::string out = text(name_of(action.kind), action.microbatch);
    if (chunks > 1) out += text('.', action.chunk);
    if (!computes(action.kind)) out += text(sends(action.kind) ? '>' : '<', action.peer);
    return out;
}

}  // namespace gptrain
