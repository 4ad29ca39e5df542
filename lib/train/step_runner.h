// Issues the steps of a run and reads their results late.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "train/injected_faults.h"
#include "train/run_state.h"
#include "watch/observers.h"

namespace gptrain {

/// At most one step is in flight: issued, but its results not yet read. So the device has work
/// while the host reads and reports.
class StepRunner {
public:
    /// `faults` may be null. The references must outlive the runner.
    StepRunner(Engine& engine, InjectedFaults* faults, Observers& observers)
        : engine_(engine), faults_(faults), observers_(observers) {}

    /// Call it before the batch of the next step is loaded: its time is a part of the step's.
    void begin();
    /// Issues a step, then waits for the one in flight before it and returns its results, if any.
    std::optional<FinishedStep> issue(const StepBatch& batch, double loss_limit);
    /// Waits for the step in flight and returns its results, if any.
    std::optional<FinishedStep> finish();
    bool in_flight() const { return in_flight_.has_value(); }

private:
    using Clock = std::chrono::steady_clock;
    struct StepInFlight {
        Engine::StatePoint state;
        std::int64_t samples = 0;
    };

    Engine& engine_;
    InjectedFaults* faults_;
    Observers& observers_;
    std::optional<StepInFlight> in_flight_;
    Clock::time_point finished_at_;  ///< end of the previous step, or start of this one
};

}  // namespace gptrain
