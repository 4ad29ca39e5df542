// Handles steps whose loss or gradients are not finite, and loss spikes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "train/run_checkpoints.h"
#include "train/run_devices.h"
#include "train/run_inputs.h"
#include "train/run_report.h"
#include "train/run_state.h"

namespace gptrain {

/// All ranks call it together. The references must outlive it.
class NumericalFaults {
public:
    NumericalFaults(const RunInputs& inputs, const RunDevices& devices, Engine& engine,
                    RunCheckpoints& checkpoints, RunReport& report);

    /// Warns if the last step, of `samples` samples, skipped its update, and records it.
    void report_skip(const RunState& run, std::int64_t samples) const;
    /// Notes a spike to roll back from, and what ends the run: too many skipped steps in a row, or
    /// a spike where the run is to stop. The next step may already be in flight.
    void check(const RunState& run);
    bool rollback_due() const { return spike_.has_value(); }
    /// Why the run must end, if it must. All ranks get the same words.
    const std::optional<std::string>& failure() const { return failure_; }
    /// Loads the newest checkpoint of this start's course and continues with the samples after the
    /// spike. No step may be in flight. If there is no sound checkpoint, or after too many
    /// rollbacks, it notes a failure and returns false. Throws (numerical) if the checkpoint turns
    /// out to be damaged while it is loaded.
    bool roll_back(RunState& run);
    /// Call it after a save: rollbacks without a new checkpoint in between are limited.
    void saved() { rollbacks_in_a_row_ = 0; }

private:
    /// Why the last step was skipped. All ranks get the same words.
    std::string reason_of_skip(const RunState& run, std::int64_t first_sample) const;
    /// The rank and tensor where the fault of the last step occurred.
    std::string place_of_fault(const RunState& run, std::int64_t first_sample) const;
    void check_spike(const RunState& run);
    /// The checkpoint to roll back to. If there is none, notes a failure of step `step`.
    std::optional<RestartPoint> rollback_target(std::int64_t step);
    /// The first one counts.
    void note_failure(std::string reason);

    struct Spike {
        std::int64_t step;
        std::int64_t consumed_samples;  ///< including the spike's
    };

    const FaultsSpec& policy_;
    const MeshShape& mesh_;
    const MpiSession& ranks_;
    Progress& progress_;
    Engine& engine_;
    RunCheckpoints& checkpoints_;
    RunReport& report_;
    std::optional<Spike> spike_;           ///< the spike to roll back from
    std::optional<std::string> failure_;   ///< what ends the run
    std::int64_t rollbacks_in_a_row_ = 0;  ///< without a new checkpoint in between
};

}  // namespace gptrain
