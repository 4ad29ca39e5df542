#include "train/numerical_faults.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/verify.h"
#include "train/step_fault.h"

namespace gptrain {
namespace {

/// The beginning of the error of a rollback that fails.
std::string spike_text(std::int64_t step) {
    return text("step ", step, ": the loss is above its limit (faults.loss_spike: rollback), ");
}

std::string unloadable_text(std::int64_t step, const CommonError& error) {
    return text(spike_text(step), "and no checkpoint can be loaded: ", error.what());
}

}  // namespace

NumericalFaults::NumericalFaults(const RunInputs& inputs, const RunDevices& devices, Engine& engine,
                                 RunCheckpoints& checkpoints, RunReport& report)
    : policy_(inputs.spec.faults),
      mesh_(inputs.plan.mesh),
      ranks_(devices.ranks),
      progress_(devices.observers.watchdog.progress()),
      engine_(engine),
      checkpoints_(checkpoints),
      report_(report) {}

void NumericalFaults::report_skip(const RunState& run, std::int64_t samples) const {
    if (!run.skipped()) return;
    const std::int64_t first = run.consumed_samples - samples;
    const std::string why = reason_of_skip(run, first);
    report_.event({.kind = RunEvent::Kind::skip, .step = run.step, .reason = why});
    if (ranks_.rank() != 0) return;
    warn("step ", run.step, ": ", why, "; update skipped (samples ", first, " to ",
         run.consumed_samples - 1, ", loss scale ", run.loss_scale, ")");
}

std::string NumericalFaults::reason_of_skip(const RunState& run, std::int64_t first_sample) const {
    switch (run.last.skip) {
        case Skip::none:
        case Skip::repeat: break;  // StepRunner has repeated it
        case Skip::nothing_learned: return "no token of the batch is learned";
        case Skip::loss_limit:
            return text("the loss, ", fixed(run.mean_loss(), 4), ", is above ",
                        fixed(run.last.loss_limit, 4), " (faults.loss_spike)");
        case Skip::not_finite:
            return text("non-finite loss or gradients (", place_of_fault(run, first_sample), ")");
    }
    return "";
}

std::string NumericalFaults::place_of_fault(const RunState& run, std::int64_t first_sample) const {
    StepFault own;
    if (run.last.faulty_sequence >= 0) own.sample = first_sample + run.last.faulty_sequence;
    if (run.last.faulty_tensor >= 0) {
        const auto gradient = engine_.faulty_gradient(run.last);
        own.begin = gradient.begin;
        own.tensor = gradient.name;
    }
    std::vector<StepFault> faults;
    for (const std::string& line : ranks_.exchange(own.to_text()))
        faults.push_back(StepFault::from_text(line));
    return describe(faults, mesh_);
}

void NumericalFaults::check(const RunState& run) {
    const bool faulty = run.skipped() && run.last.skip != Skip::nothing_learned;
    if (faulty && run.last.skipped_in_a_row >= policy_.max_skipped_steps) {
        report_.log(run);
        note_failure(text("step ", run.step, ": ", run.last.skipped_in_a_row,
                          " steps in a row were skipped (faults.max_skipped_steps); lower "
                          "optimizer.lr or check the data"));
        return;
    }
    if (run.last.skip == Skip::loss_limit) check_spike(run);
}

void NumericalFaults::check_spike(const RunState& run) {
    const LossSpike::Action action = policy_.loss_spike->action;
    if (action == LossSpike::Action::rollback && !spike_) spike_ = {run.step, run.consumed_samples};
    if (action == LossSpike::Action::stop) {
        report_.log(run);
        note_failure(text("step ", run.step, ": the loss, ", fixed(run.mean_loss(), 4),
                          ", is above ", fixed(run.last.loss_limit, 4),
                          " (faults.loss_spike: stop); its update was skipped"));
    }
}

bool NumericalFaults::roll_back(RunState& run) {
    checkpoints_.saver().finish_save();
    const Spike spike = *std::exchange(spike_, std::nullopt);
    progress_.phase("load", spike.step);
    auto checkpoint = rollback_target(spike.step);
    if (!checkpoint) return false;
    const auto start = std::chrono::steady_clock::now();
    try {
        run.goodput.roll_back(checkpoints_.load(*checkpoint, run).goodput);
    } catch (const CommonError& error) {
        // Some of the state may have been overwritten, so there is none to save.
        if (!is_unusable(error)) throw;
        throw CommonError(ExitCode::numerical, unloadable_text(spike.step, error));
    }
    run.goodput.add(&TimeSpent::load, seconds_since(start));
    const std::int64_t position = std::exchange(run.consumed_samples, spike.consumed_samples);
    print("rolled back from step ", spike.step, " to ", checkpoint->folder().string(),
          "; skipping samples ", position, " to ", run.consumed_samples - 1);
    report_.event(
        {.kind = RunEvent::Kind::resume, .step = run.step, .rolled_back_from = spike.step});
    return true;
}

std::optional<RestartPoint> NumericalFaults::rollback_target(std::int64_t step) {
    const std::int64_t tries = policy_.max_skipped_steps;
    if (rollbacks_in_a_row_ >= tries) {
        note_failure(
            text(spike_text(step), "after ", tries, " rollbacks to the newest checkpoint"));
        return std::nullopt;
    }
    try {
        if (auto checkpoint = checkpoints_.find_newest()) {
            ++rollbacks_in_a_row_;
            return checkpoint;
        }
        note_failure(text(spike_text(step), "and there is no checkpoint to roll back to"));
    } catch (const CommonError& error) {
        note_failure(unloadable_text(step, error));
    }
    return std::nullopt;
}

void NumericalFaults::note_failure(std::string reason) {
    if (!failure_) failure_ = std::move(reason);
}

}  // namespace gptrain
