// The number of slices in which a run computes its experts, where ranks divide them.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace gptrain {

/// A step whose rows of experts did not fit in their messages is repeated with twice as many
/// slices. After `patience` steps without a repeat the number halves, rounded up, down to 1. It
/// depends on the steps alone, not on when the host learns of them: the value of a step follows
/// from that of the step before and from its own repeats.
class ExpertSlices {
public:
    static constexpr std::int64_t patience = 100;

    /// `most`: slices that always suffice (ExpertsSpec::most_slices); 1 without an expert axis.
    explicit ExpertSlices(std::int64_t most) : most_(most) {}

    /// The slices of the current step.
    std::int64_t now() const { return slices_; }
    /// Repeats since the start of training; a step may be repeated more than once.
    std::int64_t repeats() const { return repeats_; }

    /// Goes on to the next step.
    void next_step();
    /// The current step is repeated with more slices. False if there cannot be more.
    bool repeat_step();

    /// The state to save in a checkpoint; null if one slice is the most.
    Json to_json() const;
    /// Restores what `to_json` returned, with at most this run's most slices; null is the state of
    /// a new run. Anything else is an Error (bad_input).
    void restore(const Json& saved, const std::string& source);

    bool operator==(const ExpertSlices&) const = default;

private:
    std::int64_t most_;
    std::int64_t slices_ = 1;
    std::int64_t since_ = 0;  ///< steps since the number last changed
    std::int64_t repeats_ = 0;
};

}  // namespace gptrain
