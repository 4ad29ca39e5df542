#include "cuda/step.h"

#include "cuda/device.cuh"

namespace gptrain::cuda {
namespace {

// One thread each: some numbers are decided upon.
constexpr LaunchShape one_thread = {.blocks = 1, .threads = 1};

struct Given {
    std::int64_t step;
    double token_weight_sum;
    double learning_rate;
};

__global__ void begin(StepState* state, Given given) {
    state->step = given.step;
    state->token_weight_sum = given.token_weight_sum;
    state->learning_rate = given.learning_rate;
    state->loss_sum = 0;
    state->grad_square_sum = 0;
    state->grad_norm = 0;
    state->grad_factor = 0;
    state->skip = 0;
}

__device__ inline void count_skip(StepState* state, const StepDecision& how) {
    ++state->skipped_steps;
    ++state->skipped_in_a_row;
    state->clean_steps = 0;
    if (how.growth_interval == 0) return;
    const double half = state->loss_scale / 2;
    state->loss_scale = half < 1 ? 1 : half;
}

__device__ inline void count_update(StepState* state, const StepDecision& how) {
    ++state->updates;
    state->skipped_in_a_row = 0;
    ++state->clean_steps;
    if (how.growth_interval == 0 || state->clean_steps < how.growth_interval) return;
    state->loss_scale *= 2;
    state->clean_steps = 0;
}

__global__ void decide(StepState* state, StepDecision how) {
    state->grad_norm = square_root(state->grad_square_sum) / state->loss_scale;
    double clip = 1;
    if (how.clip_grad > 0) {
        const double factor = how.clip_grad / (state->grad_norm + 1e-6);
        // Also where the norm is NaN.
        if (factor < 1) clip = factor;
    }
    state->grad_factor = clip / state->loss_scale;
    const bool finite = is_finite(state->loss_sum) && is_finite(state->grad_square_sum);
    state->skip = finite ? 0 : 1;
    finite ? count_update(state, how) : count_skip(state, how);
}

}  // namespace

void begin_step(const StepRef& step, const StepState& given, const OpContext& context) {
    launch(context.stream, one_thread, begin, step_state(step),
           Given{given.step, given.token_weight_sum, given.learning_rate});
}

void decide_step(const StepRef& step, const StepDecision& how, const OpContext& context) {
    launch(context.stream, one_thread, decide, step_state(step), how);
}

}  // namespace gptrain::cuda
