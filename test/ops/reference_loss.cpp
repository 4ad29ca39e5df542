// The references of the loss and of the optimizer.
#include <algorithm>
#include <cmath>

#include "reference.h"

namespace gptrain::reference {

void soft_cap(Array& x, double cap) {
    for (Bounded& value : x.values())
        value = tanh(value * rounded(1 / cap)) * Bounded(cap);
}

void cross_entropy(Array& logits, const Array& targets, const Array& weights, bool gradient,
                   double gradient_scale, Bounded& loss_sum, double softcap) {
    Sum losses;
    losses.add(loss_sum);
    for (std::int64_t c = 0; c < logits.size(0); ++c) {
        const bool counts = weights(c).value != 0;
        double maximum = logits(c, 0).value;
        for (std::int64_t v = 0; v < logits.size(1); ++v) {
            maximum = std::max(maximum, logits(c, v).value);
        }
        Sum sum;
        for (std::int64_t v = 0; v < logits.size(1); ++v)
            sum.add(exp(logits(c, v) - Bounded(maximum)));
        if (counts) {
            const Bounded log_sum = Bounded(maximum) + log(sum.result());
            losses.add(weights(c) * (log_sum - logits(c, targets.integer(c))));
        }
        for (std::int64_t v = 0; gradient && v < logits.size(1); ++v) {
            if (!counts) {
                logits(c, v) = 0.0;
                continue;
            }
            const Bounded p = exp(logits(c, v) - Bounded(maximum)) / sum.result();
            const Bounded hit = v == targets.integer(c) ? 1.0 : 0.0;
            const Bounded share = softcap > 0 ? logits(c, v) * rounded(1 / softcap) : Bounded(0);
            const Bounded slope = softcap > 0 ? Bounded(1) - share * share : Bounded(1);
            logits(c, v) = weights(c) * (p - hit) * rounded(gradient_scale) * slope;
        }
    }
    loss_sum = losses.result();
}

void adamw(Array& main_param, const Array& main_grad, Array& exp_avg, Array& exp_avg_sq, bool decay,
           const AdamWConstants& constants, const StepState& state) {
    const auto updates = static_cast<double>(state.updates);
    const Bounded correction1 = rounded(1 - std::pow(constants.beta1, updates));
    const Bounded correction2 = rounded(1 - std::pow(constants.beta2, updates));
    for (std::int64_t i = 0; i < main_param.size(0); ++i) {
        const Bounded g = main_grad(i) * rounded(state.grad_factor);
        exp_avg(i) = rounded(constants.beta1) * exp_avg(i) + rounded(1 - constants.beta1) * g;
        exp_avg_sq(i) =
            rounded(constants.beta2) * exp_avg_sq(i) + rounded(1 - constants.beta2) * g * g;
        Bounded p = main_param(i);
        if (decay) p += -(rounded(state.learning_rate * constants.weight_decay) * p);
        const Bounded root = sqrt(exp_avg_sq(i) / correction2);
        main_param(i) = p - rounded(state.learning_rate) * (exp_avg(i) / correction1) /
                                (root + rounded(constants.eps));
    }
}

}  // namespace gptrain::reference
