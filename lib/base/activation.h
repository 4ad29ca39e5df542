// The activation function between the two projections of an mlp, or in the encoder of a prompt.
#pragma once

#include <cstdint>

namespace gptrain {

enum class Activation {
    gelu,      ///< tanh form
    gelu_erf,  ///< exact
    swiglu,
    clamped_swiglu,
    geglu,  ///< the gate in the tanh form of gelu
    relu,
    relu2,  ///< the square of relu
};

/// True if the first projection also computes a gate.
constexpr bool gated(Activation activation) {
    return activation == Activation::swiglu || activation == Activation::clamped_swiglu ||
           activation == Activation::geglu;
}

/// Constants of clamped_swiglu: inputs are clamped to this size, and the gate's sigmoid is steeper.
constexpr float swiglu_limit = 7.0f;
constexpr float swiglu_slope = 1.702f;

/// Outputs of the first projection, for an activation function with `ffn` outputs.
constexpr std::int64_t input_width(Activation activation, std::int64_t ffn) {
    return gated(activation) ? 2 * ffn : ffn;
}

}  // namespace gptrain
