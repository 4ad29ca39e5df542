// State that changes from step to step. It is in backend memory, so that clipping and skipping are
// decided where the gradients are, and the host reads a step's numbers late.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace gptrain {

/// Whether and why a step's update is skipped.
enum class Skip : std::int64_t {
    none = 0,
    not_finite = 1,       ///< the loss or a gradient
    loss_limit = 2,       ///< the loss is above the step's limit
    nothing_learned = 3,  ///< every token of the global batch has weight 0
};

/// Layout of the step-state tensor, one per run.
struct StepState {
    // Written by the host at the start of a step.
    std::int64_t step;        ///< counted from 1
    double token_weight_sum;  ///< over the global batch
    double learning_rate;
    double loss_limit;  ///< for the mean loss; above it the update is skipped; 0: no limit

    // Carried from step to step, and saved in checkpoints.
    double loss_scale;              ///< 1 unless fp16
    std::int64_t clean_steps;       ///< since the loss scale last changed
    std::int64_t updates;           ///< AdamW updates so far, counted by its bias correction
    std::int64_t skipped_steps;     ///< in total
    std::int64_t skipped_in_a_row;  ///< up to this step

    // Results of the step.
    double loss_sum;         ///< sum of weight x loss over this step's tokens
    double grad_square_sum;  ///< of the gradients as stored, each parameter counted once
    double grad_norm;        ///< before clipping, with the loss scale removed
    double grad_factor;      ///< clip factor / loss scale: AdamW multiplies stored gradients by it
    Skip skip;

    // Where a fault is, -1 if unknown. Differs between ranks.
    std::int64_t faulty_sequence;  ///< first sequence, in the global batch, of the first microbatch
                                   ///< whose loss is not finite
    std::int64_t faulty_tensor;    ///< the first gradient that is not finite
};

/// The state of a new run.
constexpr StepState initial_step_state(double loss_scale) {
    StepState state{};
    state.loss_scale = loss_scale;
    return state;
}

/// The step state as ops see it, and the slot of the microbatch they work on.
struct StepRef {
    Tensor state;           ///< u8 [sizeof(StepState)]
    Tensor first_sequence;  ///< i64 [slots]: global-batch index of each microbatch's first sequence
    std::int64_t slot = 0;

    /// Single numbers of the state, as tensors that a Communicator can reduce.
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
