#include <algorithm>
#include <cmath>
#include <numbers>

#include "spec/run_plan.h"

namespace gptrain {

double LrSchedule::at(std::int64_t step) const {
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    if (step <= warmup_steps) return lr * real(step) / real(warmup_steps);
    // The fraction done of a decay of `length` steps that ends at decay_steps.
    const auto passed = [&](std::int64_t length) {
        if (step >= decay_steps) return 1.0;
        return std::max(0.0, real(step - (decay_steps - length)) / real(length));
    };
    const double u = passed(decay_steps - warmup_steps);
    switch (kind) {
        case LrKind::constant: return lr;
        case LrKind::linear: return min_lr + (lr - min_lr) * (1 - u);
        case LrKind::cosine:
            return min_lr + (lr - min_lr) * (1 + std::cos(std::numbers::pi * u)) / 2;
        case LrKind::wsd: return min_lr + (lr - min_lr) * (1 - passed(wsd_decay_steps));
        case LrKind::inverse_sqrt:
            return std::max(
                min_lr, lr * std::sqrt(real(std::max<std::int64_t>(warmup_steps, 1)) / real(step)));
    }
    return lr;
}

}  // namespace gptrain
