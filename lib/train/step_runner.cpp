#include "train/step_runner.h"

#include <iterator>
#include <utility>

#include "base/clock.h"

namespace gptrain {

void StepRunner::begin() {
    if (!in_flight_) finished_at_ = Clock::now();
}

std::optional<FinishedStep> StepRunner::issue(const StepBatch& batch, double loss_limit) {
    observers_.totals.clear();
    observers_.stragglers.begin_step(std::ssize(batch.microbatches));
    if (faults_ != nullptr) faults_->begin_step(batch.step, std::ssize(batch.microbatches));
    engine_.step(batch, loss_limit);
    if (faults_ != nullptr) faults_->end_step();
    observers_.stragglers.end_step();
    const StepInFlight issued = {.state = engine_.mark_state(), .samples = batch.global_batch_size};
    const std::optional<FinishedStep> finished = finish();
    in_flight_ = issued;
    return finished;
}

std::optional<FinishedStep> StepRunner::finish() {
    if (!in_flight_) return {};
    StepNumbers numbers = engine_.numbers_at(in_flight_->state);
    FinishedStep finished = {.state = numbers.state,
                             .measures = std::move(numbers.measures),
                             .samples = in_flight_->samples};
    in_flight_.reset();
    finished.seconds = seconds_since(finished_at_);
    finished_at_ = Clock::now();
    return finished;
}

}  // namespace gptrain
