// Detects a loss that stays above that of guessing: a run that does not learn.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace gptrain {

/// Guessing evenly among all tokens gives a loss of ln(vocab_size), and so, roughly, does a freshly
/// initialised model. If after warmup the mean loss of the last 50 steps is more than 0.5 above
/// that, training has made the model worse.
class HighLoss {
public:
    static constexpr std::size_t window = 50;
    static constexpr double margin = 0.5;

    HighLoss(std::int64_t vocab_size, std::int64_t warmup_steps);

    /// ln(vocab_size)
    double guessing_loss() const { return guessing_loss_; }
    /// Takes the loss of the next step. Returns the mean of the last 50 the first time it is too
    /// high, otherwise nothing.
    std::optional<double> add(std::int64_t step, double loss);

private:
    double guessing_loss_;
    std::int64_t warmup_steps_;
    std::deque<double> losses_;
    bool reported_ = false;
};

}  // namespace gptrain
