// State that changes from step to step. It is in backend memory, so that clipping and skipping are
// decided where the gradients are, and the host reads a step's numbers late.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/measures.h"
#include "tensor/tensor.h"

namespace gptrain {

/// The reason to skip a step's update, if there is one.
enum class Skip : std::int64_t {
    none = 0,
    not_finite = 1,       ///< the loss or a gradient
    loss_limit = 2,       ///< the loss is above the step's limit
    nothing_learned = 3,  ///< every token of the global batch has weight 0
    repeat = 4,           ///< it, or an earlier step, has unplaced rows: the host repeats it
};

/// The beginning of the step-state tensor, one per run. The numbers of the measures follow it.
struct StepState {
    // Written by the host at the start of a step.
    std::int64_t step;        ///< counted from 1
    double token_weight_sum;  ///< over the global batch
    double learning_rate;
    double loss_limit;     ///< for the mean loss; above it the update is skipped; 0: no limit
    std::int64_t repeats;  ///< 1: it repeats the step that waits for it; else 0

    // Carried from step to step, and saved in checkpoints.
    double loss_scale;              ///< 1 unless fp16
    std::int64_t clean_steps;       ///< since the loss scale last changed
    std::int64_t updates;           ///< AdamW updates so far, counted by its bias correction
    std::int64_t skipped_steps;     ///< in total
    std::int64_t skipped_in_a_row;  ///< up to this step
    std::int64_t waits;             ///< 1: a step has to be repeated; 0 whenever a run is saved

    // Results of the step.
    double grad_square_sum;  ///< of the gradients as stored, each parameter counted once
    double grad_norm;        ///< before clipping, with the loss scale removed
    double grad_factor;      ///< clip factor / loss scale: AdamW multiplies stored gradients by it
    Skip skip;
    double unplaced_rows;  ///< rows of experts without a place in a message (PlaceRows)

    // Where a fault is, -1 if unknown. Differs between ranks.
    std::int64_t faulty_sequence;  ///< first sequence, in the global batch, of the first microbatch
                                   ///< whose loss is not finite
    std::int64_t faulty_tensor;    ///< the first gradient that is not finite

    // Last, so that ranks sum it together with the measures.
    double loss_sum;  ///< sum of weight x loss over this step's tokens
};
static_assert(offsetof(StepState, loss_sum) + sizeof(double) == sizeof(StepState));

/// The state of a new run.
constexpr StepState initial_step_state(double loss_scale) {
    StepState state{};
    state.loss_scale = loss_scale;
    return state;
}

/// Bytes of a measure's number: its sum and its weight.
constexpr auto sum_bytes = static_cast<std::int64_t>(sizeof(WeightedSum));

/// Bytes of the step-state tensor.
constexpr std::int64_t state_bytes(const MeasureCounts& counts) {
    return static_cast<std::int64_t>(sizeof(StepState)) + counts.total() * sum_bytes;
}

/// The step state as ops see it, and the slot of the microbatch they work on.
struct StepRef {
    Tensor state;           ///< u8 [state_bytes(counts)]
    Tensor first_sequence;  ///< i64 [slots]: global-batch index of each microbatch's first sequence
    std::int64_t slot = 0;
    MeasureCounts counts = {};

    /// The same with the measures of `fewer` counts alone.
    StepRef with(const MeasureCounts& fewer) const {
        return {state.slice(0, 0, state_bytes(fewer)), first_sequence, slot, fewer};
    }

    /// Single numbers of the state, as tensors that a Communicator can reduce.
    Tensor token_weight_sum() const { return numbers(offsetof(StepState, token_weight_sum), 1); }
    Tensor loss_sum() const { return numbers(offsetof(StepState, loss_sum), 1); }
    Tensor grad_square_sum() const { return numbers(offsetof(StepState, grad_square_sum), 1); }
    Tensor unplaced_rows() const { return numbers(offsetof(StepState, unplaced_rows), 1); }
    /// fp64 [n, 2]: sum and weight of each number of a measure; empty if there are none.
    Tensor measure(Measure which) const {
        const auto row = static_cast<std::size_t>(which);
        return sums_from(counts.before(row), counts.of(measure_rows[row].of));
    }
    /// The same of all measures together.
    Tensor measures() const { return sums_from(0, counts.total()); }
    /// fp64: the loss and all measures, which are adjacent.
    Tensor sums() const { return numbers(offsetof(StepState, loss_sum), 1 + 2 * counts.total()); }

private:
    Tensor numbers(std::size_t offset, std::int64_t count) const {
        return state.slice(0, static_cast<std::int64_t>(offset), count * sum_bytes / 2)
            .reinterpret(DType::f64, {count});
    }
    Tensor sums_from(std::int64_t first, std::int64_t count) const {
        if (count == 0) return {};
        return numbers(sizeof(StepState) + static_cast<std::size_t>(first * sum_bytes), 2 * count)
            .view({count, 2});
    }
};

}  // namespace gptrain
