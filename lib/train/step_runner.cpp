#include "train/step_runner.h"

#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace gptrain {

void StepRunner::begin() {
    if (!in_flight_) finished_at_ = Clock::now();
}

std::optional<FinishedStep> StepRunner::issue(StepBatch batch, double loss_limit) {
    slices_.next_step();
    StepInFlight issued = {.batch = std::move(batch), .loss_limit = loss_limit, .slices = slices_};
    start(issued, Issue::first);
    std::optional<FinishedStep> finished = finish_before(&issued);
    in_flight_ = std::move(issued);
    return finished;
}

void StepRunner::start(StepInFlight& step, Issue issue) {
    const std::int64_t microbatches = std::ssize(step.batch.microbatches);
    if (issue != Issue::first) observers_.watchdog.progress().phase("step", step.batch.step);
    observers_.watchdog.progress().work(microbatches);
    observers_.totals.clear();
    observers_.stragglers.begin_step(microbatches);
    if (faults_ != nullptr) faults_->begin_step(step.batch.step, microbatches);
    engine_.step(step.batch, step.loss_limit,
                 {.slices = step.slices.now(), .repeats = issue == Issue::repeat});
    // A bit that flipped stays flipped.
    if (faults_ != nullptr && issue == Issue::first) faults_->end_step();
    observers_.stragglers.end_step();
    for (std::size_t axis = 0; axis < step.comm.size(); ++axis)
        step.comm[axis] += observers_.totals.by_axis()[axis];
    step.state = engine_.mark_state();
}

std::optional<FinishedStep> StepRunner::finish_before(StepInFlight* next) {
    if (!in_flight_) return {};
    StepInFlight step = *std::exchange(in_flight_, std::nullopt);
    const std::int64_t repeats = step.slices.repeats();
    StepNumbers numbers = read(step);
    const bool repeated = step.slices.repeats() > repeats;
    const FinishedStep finished = {.state = numbers.state,
                                   .measures = std::move(numbers.measures),
                                   .samples = step.batch.global_batch_size,
                                   .seconds = seconds_since(finished_at_),
                                   .comm = step.comm,
                                   .expert_slices = step.slices};
    finished_at_ = Clock::now();
    if (!repeated) return finished;
    slices_ = step.slices;
    if (next == nullptr) return finished;
    slices_.next_step();
    next->slices = slices_;
    start(*next, Issue::again);
    return finished;
}

StepNumbers StepRunner::read(StepInFlight& step) {
    for (;;) {
        StepNumbers numbers = engine_.numbers_at(step.state);
        if (numbers.state.skip != Skip::repeat) return numbers;
        if (!step.slices.repeat_step()) {
            fail(
                ExitCode::bug, "step ", step.batch.step, ": ", numbers.state.unplaced_rows,
                " rows of experts have no place in their messages, though the tokens are cut into ",
                step.slices.now(), " slices, whose rows always fit");
        }
        start(step, Issue::repeat);
    }
}

std::int64_t most_expert_slices(const RunPlan& plan) {
    if (plan.mesh.expert == 1) return 1;
    return plan.model.experts->most_slices(plan.micro_batch_size * plan.stream_length(),
                                           plan.mesh.expert);
}

}  // namespace gptrain
