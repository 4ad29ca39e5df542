// Issues the steps of a run, repeats those that have to be, and reads their results late.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/engine.h"
#include "stored/expert_slices.h"
#include "train/injected_faults.h"
#include "train/run_state.h"
#include "watch/observers.h"

namespace gptrain {

/// At most one step is in flight: issued, but its results not yet read. So the device has work
/// while the host reads and reports.
///
/// A step whose rows of experts did not fit in their messages has updated nothing, nor has the one
/// issued after it. When the host reads this, it issues both again, the first with more slices
/// until its rows fit. No caller sees more of it than `FinishedStep::expert_slices`.
class StepRunner {
public:
    /// `faults` may be null. The references must outlive the runner. `slices`: of the last step.
    StepRunner(Engine& engine, InjectedFaults* faults, Observers& observers,
               const ExpertSlices& slices)
        : engine_(engine), faults_(faults), observers_(observers), slices_(slices) {}

    /// Goes on from another last step. No step may be in flight.
    void restore(const ExpertSlices& slices) { slices_ = slices; }
    /// Call it before the batch of the next step is loaded: its time is a part of the step's.
    void begin();
    /// Issues a step, then waits for the one in flight before it and returns its results, if any.
    /// Error (bug) if rows find no place in the most slices.
    std::optional<FinishedStep> issue(StepBatch batch, double loss_limit);
    /// Waits for the step in flight and returns its results, if any; the same Error.
    std::optional<FinishedStep> finish() { return finish_before(nullptr); }
    bool in_flight() const { return in_flight_.has_value(); }

private:
    using Clock = std::chrono::steady_clock;
    struct StepInFlight {
        StepBatch batch;
        double loss_limit;
        ExpertSlices slices;
        CommTotals::ByAxis comm = {};  ///< each time that it was issued
        Engine::StatePoint state = {};
    };
    enum class Issue {
        first,
        repeat,  ///< Engine::step repeats the step that waits for it
        again,   ///< the step before this one has been repeated
    };

    /// Issues it and marks the state after it.
    void start(StepInFlight& step, Issue issue);
    /// The results of the step in flight. If it is repeated, so is `next`, issued after it.
    std::optional<FinishedStep> finish_before(StepInFlight* next);
    /// The results of a step once its rows of experts fit.
    StepNumbers read(StepInFlight& step);

    Engine& engine_;
    InjectedFaults* faults_;
    Observers& observers_;
    ExpertSlices slices_;  ///< of the last step issued
    std::optional<StepInFlight> in_flight_;
    Clock::time_point finished_at_;  ///< end of the previous step, or start of this one
};

/// ExpertsSpec::most_slices of the plan; 1 without an expert axis.
std::int64_t most_expert_slices(const RunPlan& plan);

}  // namespace gptrain
