// One entry of a stage's list: a computation or a message (schedule.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/words.h"

namespace gptrain {

enum class ActionKind {
    forward,              ///< F
    backward,             ///< BW: input and weight gradients
    backward_inputs,      ///< B: the gradients that earlier layers wait for
    backward_weights,     ///< W: the weight gradients that B left out
    head_weights,         ///< WH: the head's weight gradient, if F left it out
    send_activations,     ///< to the next chunk
    receive_activations,  ///< from the previous chunk
    send_gradients,       ///< to the previous chunk
    receive_gradients,    ///< from the next chunk
};

constexpr auto words_of(ActionKind) {
    using enum ActionKind;
    return std::to_array<Word<ActionKind>>({{forward, "F"},
                                            {backward, "BW"},
                                            {backward_inputs, "B"},
                                            {backward_weights, "W"},
                                            {head_weights, "WH"},
                                            {send_activations, "SF"},
                                            {receive_activations, "RF"},
                                            {send_gradients, "SB"},
                                            {receive_gradients, "RB"}});
}

/// True for F, BW, B, W and WH.
constexpr bool computes(ActionKind kind) {
    return kind <= ActionKind::head_weights;
}
constexpr bool sends(ActionKind kind) {
    return kind == ActionKind::send_activations || kind == ActionKind::send_gradients;
}

struct Action {
    static constexpr std::int64_t none = -1;

    ActionKind kind;
    std::int64_t microbatch;
    std::int64_t chunk = 0;  ///< of this stage; for a message, the chunk that writes or reads it
    std::int64_t slot = 0;   ///< holds the microbatch's activations; unused in WH and messages
    /// Holds what F leaves to WH; none if F computes the head's weight gradient itself.
    std::int64_t deferred_head = none;
    /// The boundary buffer that F, BW or B reads, or that a receive fills; none at the model's
    /// ends.
    std::int64_t input = none;
    /// The boundary buffer that F, BW or B writes, or that a send sends; none at the model's ends.
    std::int64_t output = none;
    std::int64_t peer = none;  ///< the other stage of a message

    bool operator==(const Action&) const = default;
};

/// "F0" or, for a message, "SF0>2": kind, microbatch, other stage. If `chunks` is above 1 the chunk
/// is appended: "F0.1" is microbatch 0 of chunk 1.
std::string to_text(const Action& action, std::int64_t chunks);

}  // namespace gptrain
