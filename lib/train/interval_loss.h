// The mean loss between logged steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "engine/rank_model.h"

namespace gptrain {

/// An interval begins after each step that `interval` divides. A step that is logged besides those,
/// the last of a run, ends none: the mean of an interval in whose midst a run ended and went on is
/// that of one that never stopped.
class IntervalLoss {
public:
    /// `interval`: steps between logged steps, at least 1.
    explicit IntervalLoss(std::int64_t interval) : interval_(interval) {}

    /// The loss of the next step; nothing where its update was left out.
    void add(std::int64_t step, const std::optional<LossSum>& loss);
    /// Over the tokens of the interval's steps so far; nothing where there is none.
    std::optional<double> mean() const;

    /// For a checkpoint.
    Json to_json() const;
    /// Takes it over; null, as older checkpoints have it, is an interval without steps. Error
    /// (bad_input) for something else.
    void restore(const Json& saved, const std::string& source);

private:
    std::int64_t interval_;
    LossSum sum_;
};

}  // namespace gptrain
