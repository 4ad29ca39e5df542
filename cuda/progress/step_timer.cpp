#include "cuda/progress/step_timer.h"

#include <utility>

namespace gptrain::cuda {

Event StepTimer::mark() {
    if (free_.empty()) free_.emplace_back(Event::Purpose::time);
    Event event = std::move(free_.back());
    free_.pop_back();
    event.record(compute_);
    return event;
}

void StepTimer::begin_step() {
    const std::lock_guard lock(mutex_);
    steps_.push_back({.begin = mark(), .end = {}, .waits = {}});
}

void StepTimer::end_step() {
    const std::lock_guard lock(mutex_);
    steps_.back().end = mark();
}

void StepTimer::wait(const Event& event) {
    const std::lock_guard lock(mutex_);
    const bool in_step = !steps_.empty() && !steps_.back().end;
    if (!in_step) return compute_.wait(event);
    Event begin = mark();
    compute_.wait(event);
    steps_.back().waits.push_back({.begin = std::move(begin), .end = mark()});
}

void StepTimer::add_passed_waits(Step& step) {
    while (!step.waits.empty() && step.waits.front().end.done()) {
        Wait& wait = step.waits.front();
        step.waited += wait.end.milliseconds_since(wait.begin);
        free_.push_back(std::move(wait.begin));
        free_.push_back(std::move(wait.end));
        step.waits.pop_front();
    }
}

void StepTimer::collect_if_free() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) collect();
}

void StepTimer::collect() {
    while (!steps_.empty()) {
        Step& step = steps_.front();
        add_passed_waits(step);
        if (!step.end || !step.end->done()) return;
        const double all = step.end->milliseconds_since(step.begin);
        own_seconds_.push_back(1e-3 * (all - step.waited));
        free_.push_back(std::move(step.begin));
        free_.push_back(std::move(*step.end));
        steps_.pop_front();
    }
}

std::vector<double> StepTimer::take_steps() {
    const std::lock_guard lock(mutex_);
    collect();
    return std::exchange(own_seconds_, {});
}

}  // namespace gptrain::cuda
