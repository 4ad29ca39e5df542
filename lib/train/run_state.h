// Where a run stands after its last step.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/step_state.h"
#include "comm/comm_totals.h"
#include "metrics/goodput.h"
#include "stored/expert_slices.h"
#include "stored/interval_loss.h"
#include "stored/loss_spikes.h"

namespace gptrain {

/// A step whose results have been read.
struct FinishedStep {
    StepState state;
    std::vector<WeightedSum> measures;
    std::int64_t samples = 0;  ///< of the global batch
    double seconds = 0;        ///< since the previous step finished, or since this one was issued
    CommTotals::ByAxis comm = {};
    ExpertSlices expert_slices;  ///< after its repeats, which the seconds and `comm` contain
};

/// The state of a run besides weights and optimizer state. Checkpoints hold it, except where noted.
struct RunState {
    std::int64_t step = 0;  ///< steps done so far
    std::int64_t consumed_samples = 0;
    StepState last{};                        ///< after the last step
    std::vector<WeightedSum> measures = {};  ///< of the last step; not in checkpoints
    double loss_scale = 1;                   ///< used in the last step; not in checkpoints
    IntervalLoss interval_loss;
    LossSpikes loss_spikes;
    ExpertSlices expert_slices;  ///< of the last step
    Goodput goodput = {};

    /// True if the last step skipped its update.
    bool skipped() const { return last.skip != Skip::none; }
    /// The loss of the last step.
    WeightedSum loss_sum() const { return {last.loss_sum, last.token_weight_sum}; }
    double mean_loss() const { return loss_sum().mean(); }

    /// Adds the results of the next step.
    void add(const FinishedStep& finished);
};

}  // namespace gptrain
