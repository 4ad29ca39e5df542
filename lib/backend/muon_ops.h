// Ops of Muon, besides GEMMs. Legend of the shapes: ops.h.
#pragma once

#include <string_view>

#include "backend/step_state.h"

namespace gptrain {

/// With g = main_grad step.grad_factor:
///   momentum = decay momentum + g
///   u = g + decay momentum (`nesterov`), else u = momentum
/// With step.skip momentum stays and u = 0.
struct MuonMomentum {
    static constexpr std::string_view name = "muon_momentum";
    Tensor main_grad;  ///< fp32
    Tensor momentum;   ///< fp32, as many elements, in and out
    Tensor u;          ///< fp32, as many elements, =
    float decay = 0.95f;
    bool nesterov = true;
    StepRef step = {};
    void tensors(const auto& list) const { list.reads(main_grad).updates(momentum).writes(u); }
};

/// to = from / (sqrt(square_sum) + eps), rounded once
struct Normalise {
    static constexpr std::string_view name = "normalise";
    Tensor from;        ///< fp32
    Tensor square_sum;  ///< fp64 [1]
    Tensor to;          ///< compute dtype, as many elements, =
    float eps = 1e-7f;
    void tensors(const auto& list) const { list.reads(from, square_sum).writes(to); }
};

/// x = a x + b y, rounded once
struct Combine {
    static constexpr std::string_view name = "combine";
    Tensor x;  ///< compute dtype, in and out
    Tensor y;  ///< like x; may be x itself
    float a = 1;
    float b = 1;
    void tensors(const auto& list) const { list.reads(y).updates(x); }
};

/// With rate = step.learning_rate lr_scale:
///   main_param = main_param (1 - rate weight_decay) - rate scale x
/// With step.skip only `weight` is written.
struct MuonUpdate {
    static constexpr std::string_view name = "muon_update";
    Tensor main_param;  ///< fp32 [R, C], in and out
    Tensor x;           ///< compute dtype [R, C] rows
    Tensor weight;      ///< compute dtype [R, C], = rounded main_param; empty if it is main_param
    double scale = 1;
    double lr_scale = 1;
    double weight_decay = 0;
    StepRef step = {};
    void tensors(const auto& list) const { list.reads(x).updates(main_param).writes(weight); }
};

}  // namespace gptrain
