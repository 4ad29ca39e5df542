#include "train/high_loss.h"

#include <cmath>
#include <numeric>

namespace gptrain {

HighLoss::HighLoss(std::int64_t vocab_size, std::int64_t warmup_steps)
    : guessing_loss_(std::log(static_cast<double>(vocab_size))), warmup_steps_(warmup_steps) {}

std::optional<double> HighLoss::add(std::int64_t step, double loss) {
    if (reported_ || step <= warmup_steps_) return std::nullopt;
    losses_.push_back(loss);
    if (losses_.size() > window) losses_.pop_front();
    if (losses_.size() < window) return std::nullopt;
    const double sum = std::accumulate(losses_.begin(), losses_.end(), 0.0);
    const double mean = sum / static_cast<double>(window);
    if (!(mean > guessing_loss_ + margin)) return std::nullopt;
    reported_ = true;
    return mean;
}

}  // namespace gptrain
