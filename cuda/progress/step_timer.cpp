#include "cuda/progress/step_timer.h"

#include <utility>

namespace gptrain::cuda {

void StepTimer::begin_step() {
    const std::lock_guard lock(mutex_);
    steps_.push_back({.begin = events_.mark(compute_), .end = {}, .waits = {}});
}

void StepTimer::end_step() {
    const std::lock_guard lock(mutex_);
    steps_.back().end = events_.mark(compute_);
}

void StepTimer::wait(const Event& event) {
    const std::lock_guard lock(mutex_);
    const bool in_step = !steps_.empty() && !steps_.back().end;
    if (!in_step) return compute_.wait(event);
    steps_.back().waits.wait(event, compute_, events_);
}

void StepTimer::collect_if_free() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) collect();
}

void StepTimer::collect() {
    while (!steps_.empty()) {
        Step& step = steps_.front();
        step.waited += step.waits.take_passed(events_);
        if (!step.end || !step.end->done()) return;
        const double all = step.end->milliseconds_since(step.begin);
        own_seconds_.push_back(1e-3 * (all - step.waited));
        events_.put_back(std::move(step.begin));
        events_.put_back(std::move(*step.end));
        steps_.pop_front();
    }
}

std::vector<double> StepTimer::take_steps() {
    const std::lock_guard lock(mutex_);
    collect();
    return std::exchange(own_seconds_, {});
}

}  // namespace gptrain::cuda
