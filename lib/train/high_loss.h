// A loss that stays above what guessing gives: a run that does not learn.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace gptrain {

/// Who guesses evenly among all tokens has a loss of ln(vocab_size), and so has, about, a model
/// with its starting weights. A mean loss of the last 50 steps that is more than 0.5 above it,
/// after the warm-up, means that training has made the model worse.
class HighLoss {
public:
    static constexpr std::size_t window = 50;
    static constexpr double margin = 0.5;

    HighLoss(std::int64_t vocab_size, std::int64_t warmup_steps);

    /// ln(vocab_size)
    double guessing() const { return guessing_; }
    /// The loss of the next step. The mean of the last 50, the first time that it is too high;
    /// otherwise nothing.
    std::optional<double> add(std::int64_t step, double loss);

private:
    double guessing_;
    std::int64_t warmup_steps_;
    std::deque<double> losses_;
    bool told_ = false;
};

}  // namespace gptrain
