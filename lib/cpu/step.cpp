#include "cpu/step.h"

#include <algorithm>
#include <cmath>

namespace gptrain::cpu {
namespace {

void count_skip(StepState& state, const StepPolicy& policy) {
    ++state.skipped_steps;
    if (state.skip == Skip::nothing_learned) return;
    ++state.skipped_in_a_row;
    if (state.skip != Skip::not_finite) return;
    state.clean_steps = 0;
    if (policy.growth_interval > 0) state.loss_scale = std::max(1.0, state.loss_scale / 2);
}

void count_update(StepState& state, const StepPolicy& policy) {
    ++state.updates;
    state.skipped_in_a_row = 0;
    ++state.clean_steps;
    if (policy.growth_interval == 0 || state.clean_steps < policy.growth_interval) return;
    state.loss_scale *= 2;
    state.clean_steps = 0;
}

}  // namespace

void run(const BeginStep& args) {
    StepState& state = step_state(args.step);
    state.step = args.given.step;
    state.token_weight_sum = args.given.token_weight_sum;
    state.learning_rate = args.given.learning_rate;
    state.loss_limit = args.given.loss_limit;
    state.repeats = args.given.repeats;
    if (state.repeats != 0) state.waits = 0;
    state.grad_square_sum = 0;
    state.grad_norm = 0;
    state.grad_factor = 0;
    state.skip = Skip::none;
    state.unplaced_rows = 0;
    state.faulty_sequence = -1;
    state.faulty_tensor = -1;
    const Tensor sums = args.step.sums();
    std::fill_n(sums.as<double>(), sums.elements(), 0.0);
}

void run(const CheckLoss& args) {
    StepState& state = step_state(args.step);
    if (state.faulty_sequence >= 0 || std::isfinite(state.loss_sum)) return;
    state.faulty_sequence = args.step.first_sequence.as<std::int64_t>()[args.step.slot];
}

void run(const DecideStep& args) {
    StepState& state = step_state(args.step);
    state.grad_norm = std::sqrt(state.grad_square_sum) / state.loss_scale;
    const double clip = args.policy.clip_grad > 0
                            ? std::min(1.0, args.policy.clip_grad / (state.grad_norm + 1e-6))
                            : 1.0;
    state.grad_factor = clip / state.loss_scale;
    if (state.unplaced_rows > 0 || state.waits != 0) {
        state.skip = Skip::repeat;
        state.waits = 1;
        return;
    }
    const bool finite = std::isfinite(state.loss_sum) && std::isfinite(state.grad_square_sum);
    const bool above =
        state.loss_limit > 0 && state.loss_sum / state.token_weight_sum > state.loss_limit;
    state.skip = !finite                       ? Skip::not_finite
                 : state.token_weight_sum == 0 ? Skip::nothing_learned
                 : above                       ? Skip::loss_limit
                                               : Skip::none;
    state.skip == Skip::none ? count_update(state, args.policy) : count_skip(state, args.policy);
}

}  // namespace gptrain::cpu
