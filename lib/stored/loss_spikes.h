// Loss spikes: steps whose loss is far above that of the steps before.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The limit of a step's loss is `factor` times the mean of the last `window` losses. Which losses
/// set the limit of which step depends only on step numbers: the host reads losses late, so a
/// step's loss never counts in the limit of the next step, even if it is already known.
class LossSpikes {
public:
    explicit LossSpikes(const std::optional<LossSpike>& policy) : policy_(policy) {}

    const std::optional<LossSpike>& policy() const { return policy_; }

    /// The largest loss allowed in this step, from the losses up to step - 2. 0 means no limit:
    /// there is no policy, or fewer losses than the window needs.
    double limit(std::int64_t step) const;
    /// Adds the loss of the next step that was not skipped.
    void add(std::int64_t step, double loss);

    /// The state to save in a checkpoint: what `limit` depends on.
    Json to_json() const;
    /// Restores what `to_json` returned, as far as this window needs it. Anything else is an Error
    /// (bad_input).
    void restore(const Json& saved, const std::string& source);

private:
    struct Loss {
        std::int64_t step;
        double value;
    };
    /// One more than the window: the last step does not count yet.
    std::size_t capacity() const { return static_cast<std::size_t>(policy_->window) + 1; }

    std::optional<LossSpike> policy_;
    std::deque<Loss> losses_;
};

}  // namespace gptrain
