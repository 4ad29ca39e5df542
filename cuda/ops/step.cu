#include "cuda/ops/step.h"

#include "cuda/device/device.cuh"

namespace gptrain::cuda {
namespace {

// One thread per launch: each kernel only computes a few numbers.
constexpr LaunchShape one_thread = {.blocks = 1, .threads = 1};

struct Given {
    std::int64_t step;
    double token_weight_sum;
    double learning_rate;
    double loss_limit;
    std::int64_t repeats;
};

/// `sums`: the loss and the measures.
__global__ void begin(StepState* state, Given given, double* sums, std::int64_t count) {
    state->step = given.step;
    state->token_weight_sum = given.token_weight_sum;
    state->learning_rate = given.learning_rate;
    state->loss_limit = given.loss_limit;
    state->repeats = given.repeats;
    if (given.repeats != 0) state->waits = 0;
    state->grad_square_sum = 0;
    state->grad_norm = 0;
    state->grad_factor = 0;
    state->skip = Skip::none;
    state->unplaced_rows = 0;
    state->faulty_sequence = -1;
    state->faulty_tensor = -1;
    for (std::int64_t i = 0; i < count; ++i)
        sums[i] = 0;
}

__global__ void record_fault(StepState* state, const std::int64_t* first_sequence) {
    if (state->faulty_sequence >= 0 || is_finite(state->loss_sum)) return;
    state->faulty_sequence = *first_sequence;
}

__device__ inline void count_skip(StepState* state, const StepPolicy& policy) {
    ++state->skipped_steps;
    if (state->skip == Skip::nothing_learned) return;
    ++state->skipped_in_a_row;
    if (state->skip != Skip::not_finite) return;
    state->clean_steps = 0;
    if (policy.growth_interval == 0) return;
    const double half = state->loss_scale / 2;
    state->loss_scale = half < 1 ? 1 : half;
}

__device__ inline void count_update(StepState* state, const StepPolicy& policy) {
    ++state->updates;
    state->skipped_in_a_row = 0;
    ++state->clean_steps;
    if (policy.growth_interval == 0 || state->clean_steps < policy.growth_interval) return;
    state->loss_scale *= 2;
    state->clean_steps = 0;
}

__global__ void decide(StepState* state, StepPolicy policy) {
    state->grad_norm = square_root(state->grad_square_sum) / state->loss_scale;
    double clip = 1;
    if (policy.clip_grad > 0) {
        const double factor = policy.clip_grad / (state->grad_norm + 1e-6);
        // If the norm is NaN, clip stays 1.
        if (factor < 1) clip = factor;
    }
    state->grad_factor = clip / state->loss_scale;
    if (state->unplaced_rows > 0 || state->waits != 0) {
        state->skip = Skip::repeat;
        state->waits = 1;
        return;
    }
    const bool finite = is_finite(state->loss_sum) && is_finite(state->grad_square_sum);
    const bool above =
        state->loss_limit > 0 && state->loss_sum / state->token_weight_sum > state->loss_limit;
    state->skip = !finite                        ? Skip::not_finite
                  : state->token_weight_sum == 0 ? Skip::nothing_learned
                  : above                        ? Skip::loss_limit
                                                 : Skip::none;
    state->skip == Skip::none ? count_update(state, policy) : count_skip(state, policy);
}

}  // namespace

void run(const BeginStep& args, const OpContext& context) {
    const Tensor sums = args.step.sums();
    launch(context.stream, one_thread, begin, step_state(args.step),
           Given{args.given.step, args.given.token_weight_sum, args.given.learning_rate,
                 args.given.loss_limit, args.given.repeats},
           sums.as<double>(), sums.elements());
}

void run(const CheckLoss& args, const OpContext& context) {
    launch(context.stream, one_thread, record_fault, step_state(args.step),
           args.step.first_sequence.as<std::int64_t>() + args.step.slot);
}

void run(const DecideStep& args, const OpContext& context) {
    launch(context.stream, one_thread, decide, step_state(args.step), args.policy);
}

}  // namespace gptrain::cuda
