// AdamW on eight elements (formula: step_ops.h).
#pragma once

#include <cmath>

#include "backend/ops.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

/// Constants shared by all elements of a step.
struct AdamWStep {
    Vec8 grad_factor, beta1, one_minus_beta1, beta2, one_minus_beta2;
    Vec8 rate;             ///< learning rate / (1 - beta1^t)
    Vec8 root_correction;  ///< sqrt(1 - beta2^t)
    Vec8 eps, decay;       ///< decay: 1 - learning rate x weight decay

    AdamWStep(const AdamWConstants& constants, const StepState& state)
        : grad_factor(static_cast<float>(state.grad_factor)),
          beta1(static_cast<float>(constants.beta1)),
          one_minus_beta1(static_cast<float>(1 - constants.beta1)),
          beta2(static_cast<float>(constants.beta2)),
          one_minus_beta2(static_cast<float>(1 - constants.beta2)),
          eps(static_cast<float>(constants.eps)) {
        const auto updates = static_cast<double>(state.updates);
        rate = static_cast<float>(state.learning_rate / (1 - std::pow(constants.beta1, updates)));
        root_correction = static_cast<float>(std::sqrt(1 - std::pow(constants.beta2, updates)));
        decay = static_cast<float>(1 - state.learning_rate * constants.weight_decay);
    }

    /// Updates exp_avg m and exp_avg_sq v, and returns the new main parameter.
    Vec8 update(Vec8 grad, Vec8 param, Vec8& m, Vec8& v, Vec8 decay_factor) const {
        const Vec8 g = grad * grad_factor;
        m = fma(beta1, m, one_minus_beta1 * g);
        v = fma(beta2, v, one_minus_beta2 * g * g);
        const Vec8 root = sqrt(v) / root_correction + eps;
        return param * decay_factor - rate * m / root;
    }
};

}  // namespace gptrain::cpu
