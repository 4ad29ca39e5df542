// The mean loss between logged steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/measures.h"
#include "base/json.h"

namespace gptrain {

/// An interval starts after each step that `interval` divides. The extra logged step at the end of
/// a run does not end an interval. So a run that stops inside an interval and resumes reports the
/// same mean as a run that never stopped.
class IntervalLoss {
public:
    /// `interval`: steps between logged steps, at least 1.
    explicit IntervalLoss(std::int64_t interval) : interval_(interval) {}

    /// Adds the loss of the next step, or nothing if its update was skipped.
    void add(std::int64_t step, const std::optional<WeightedSum>& loss);
    /// The mean over the tokens of the interval's steps so far; nothing if there are none.
    std::optional<double> mean() const;

    /// The state to save in a checkpoint.
    Json to_json() const;
    /// Restores what `to_json` returned. If the saved sum belongs to a different or unknown
    /// interval (older checkpoints), it is discarded and the interval starts empty, as it does for
    /// null. Anything else is an Error (bad_input).
    void restore(const Json& saved, const std::string& source);

private:
    std::int64_t interval_;
    WeightedSum sum_;
};

}  // namespace gptrain
