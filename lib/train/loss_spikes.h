// Losses that jump: a step whose loss is far above those before it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The mean of the last `window` losses, times `factor`, bounds the loss of a step. Which losses
/// bound which step depends on step numbers alone: the host reads losses late, so that of a step
/// never bounds the next one, whether it is known by then or not.
class LossSpikes {
public:
    explicit LossSpikes(const std::optional<LossSpike>& policy) : policy_(policy) {}

    const std::optional<LossSpike>& policy() const { return policy_; }

    /// The largest loss that this step may have, by the losses up to step - 2; 0: no bound, without
    /// a policy or as long as there are fewer losses than the window has.
    double limit(std::int64_t step) const;
    /// The loss of the next step that was not left out.
    void add(std::int64_t step, double loss);

    /// For a checkpoint: what `limit` depends on.
    Json to_json() const;
    /// Takes it over, as far as this window needs it. Error (bad_input) for something else.
    void restore(const Json& saved, const std::string& source);

private:
    struct Loss {
        std::int64_t step;
        double value;
    };
    /// One more than the window: of the last step, which does not count yet.
    std::size_t most() const { return static_cast<std::size_t>(policy_->window) + 1; }

    std::optional<LossSpike> policy_;
    std::deque<Loss> losses_;
};

}  // namespace gptrain
