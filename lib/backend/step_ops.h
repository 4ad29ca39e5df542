// Ops of a step as a whole, and of the optimizer. Legend of the shapes: ops.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/step_state.h"
#include "tensor/shard.h"

namespace gptrain {

/// Writes the host's inputs of a step and clears the step's results and measures. Carried values
/// stay.
struct BeginStep {
    static constexpr std::string_view name = "begin_step";
    StepRef step;
    StepState given = {};
    void tensors(const auto& /*list*/) const {}
};

/// Run after a microbatch's loss: if loss_sum is not finite and faulty_sequence is not set,
/// faulty_sequence becomes the slot's first sequence.
struct CheckLoss {
    static constexpr std::string_view name = "check_loss";
    StepRef step;
    void tensors(const auto& /*list*/) const {}
};

/// All elements = 0.
struct Clear {
    static constexpr std::string_view name = "clear";
    std::span<const Tensor> values;  ///< fp32, =
    void tensors(const auto& list) const { list.writes(values); }
};

/// total += the sum of squares of all elements.
struct SquareSum {
    static constexpr std::string_view name = "square_sum";
    std::span<const Tensor> addends;  ///< fp32
    Tensor total;                     ///< fp64 [1], +=
    void tensors(const auto& list) const { list.reads(addends).updates(total); }
};

/// How `DecideStep` clips gradients and moves the fp16 loss scale: it doubles after
/// `growth_interval` clean steps and halves on a step whose loss or gradients are not finite, never
/// below 1. With growth_interval 0 it never changes.
struct StepPolicy {
    double clip_grad = 1.0;  ///< 0: no clipping
    std::int64_t growth_interval = 0;
};

/// Computes grad_norm, skip and grad_factor from loss_sum, grad_square_sum and token_weight_sum,
/// then the carried counters and the next step's loss scale. A step with no learned tokens counts
/// as skipped, but does not count towards consecutive skips or the loss scale, because it is not
/// evidence of a problem. If rows are unplaced, or an earlier step waits to be repeated, skip is
/// `repeat`, `waits` becomes 1, and no counter moves; BeginStep of the step that repeats sets
/// `waits` to 0.
struct DecideStep {
    static constexpr std::string_view name = "decide_step";
    StepRef step;
    StepPolicy policy = {};
    void tensors(const auto& /*list*/) const {}
};

/// If skip is not_finite: faulty_tensor = index of the first tensor with a value that is not
/// finite. Otherwise nothing is read.
struct FindNotFinite {
    static constexpr std::string_view name = "find_not_finite";
    std::span<const Tensor> values;  ///< fp32
    StepRef step;
    void tensors(const auto& /*list*/) const {}
};

/// One piece of the parameters for AdamW; all tensors are flat and equally long, but for scales and
/// padding. The formats of an op's pieces may differ, not that of their main parameters and
/// weights.
struct AdamWPiece {
    Tensor main_param;  ///< fp32, or bf16: rounded stochastically
    Tensor main_grad;   ///< fp32
    /// Both fp32, both bf16: rounded stochastically, or both u8: codes (base/dynamic8.h) in blocks
    /// of moment_block, padded to whole ones, exp_avg with signs, exp_avg_sq without.
    Tensor exp_avg;
    Tensor exp_avg_sq;
    Tensor weight;  ///< compute dtype, = rounded main_param, even if the step is skipped; empty if
                    ///< it is main_param itself
    bool decay = false;
    Tensor exp_avg_scales = {};     ///< fp32, one for each block of codes
    Tensor exp_avg_sq_scales = {};  ///< the same
    Shard shard = {};               ///< what is rounded stochastically; in codes, whole blocks
};

struct AdamWConstants {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;
};

/// With g = main_grad step.grad_factor, t = step.updates (including this one) and lr =
/// step.learning_rate:
///   exp_avg = b1 exp_avg + (1 - b1) g
///   exp_avg_sq = b2 exp_avg_sq + (1 - b2) g^2
///   main_param -= lr weight_decay main_param (`decay` only)
///   main_param -= lr (exp_avg / (1 - b1^t)) / (sqrt(exp_avg_sq / (1 - b2^t)) + eps)
/// With step.skip only `weight` is written.
/// The update is computed in fp32 from exp_avg and exp_avg_sq as they are before they are stored.
/// Codes: scale = the largest magnitude of the block; the code of x is that of x / scale. What is
/// not 0 keeps its sign, so it does not become 0. Stochastic rounding: base/stochastic_rounding.h.
struct AdamW {
    static constexpr std::string_view name = "adamw";
    std::span<const AdamWPiece> pieces;
    AdamWConstants constants = {};
    StepRef step = {};
    std::uint64_t seed = 0;  ///< of stochastic rounding
    void tensors(const auto& list) const {
        for (const AdamWPiece& piece : pieces) {
            list.reads(piece.main_grad)
                .updates(piece.main_param, piece.exp_avg, piece.exp_avg_sq)
                .updates(piece.exp_avg_scales, piece.exp_avg_sq_scales)
                .writes(piece.weight);
        }
    }
};

}  // namespace gptrain
