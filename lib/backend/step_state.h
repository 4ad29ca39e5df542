// What changes from step to step. It lives in backend memory, so that clipping and skipping are
// decided where the gradients are, and the host reads a step's numbers when they are there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace gptrain {

/// Whether a step's update is left out, and why.
enum class Skip : std::int64_t {
    no = 0,
    not_finite = 1,  ///< loss or gradients
    loss_limit = 2,  ///< the loss is above the step's limit
};

/// The layout of the step-state tensor (one for a run).
struct StepState {
    // Given by the host at the start of a step.
    std::int64_t step;        ///< counted from 1
    double token_weight_sum;  ///< over the global batch
    double learning_rate;
    double loss_limit;  ///< of the mean loss; above it the update is left out; 0: none

    // Carried from step to step; part of a checkpoint.
    double loss_scale;              ///< 1 unless fp16
    std::int64_t clean_steps;       ///< since the loss scale last changed
    std::int64_t updates;           ///< AdamW updates done (its bias correction counts these)
    std::int64_t skipped_steps;     ///< in all
    std::int64_t skipped_in_a_row;  ///< up to now

    // Results of the step.
    double loss_sum;         ///< sum of weight x loss over the tokens of this step
    double grad_square_sum;  ///< of the gradients as stored, each parameter once
    double grad_norm;        ///< before clipping, without the loss scale
    double grad_factor;  ///< what AdamW multiplies a stored gradient by: clip factor / loss scale
    Skip skip;

    // What is known of a fault, each -1 for nothing. Not the same on all ranks.
    std::int64_t faulty_sequence;  ///< in the global batch: of the first microbatch without a
                                   ///< finite loss, its first
    std::int64_t faulty_tensor;    ///< the first gradient that is not finite
};

/// What a new run starts from.
constexpr StepState initial_step_state(double loss_scale) {
    StepState state{};
    state.loss_scale = loss_scale;
    return state;
}

/// The step state as ops see it: the state, and the row of the slot whose microbatch they work on.
struct StepRef {
    Tensor state;           ///< u8 [sizeof(StepState)]
    Tensor first_sequence;  ///< i64 [slots]: index in the global batch of a microbatch's first
                            ///< sequence
    std::int64_t slot = 0;

    /// One number of the state, as a tensor that a Communicator can reduce.
    Tensor token_weight_sum() const { return number(offsetof(StepState, token_weight_sum)); }
    Tensor loss_sum() const { return number(offsetof(StepState, loss_sum)); }
    Tensor grad_square_sum() const { return number(offsetof(StepState, grad_square_sum)); }

private:
    Tensor number(std::size_t offset) const {
        return state.slice(0, static_cast<std::int64_t>(offset), sizeof(double))
            .reinterpret(DType::f64, {1});
    }
};

}  // namespace gptrain
