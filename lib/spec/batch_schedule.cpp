#include <algorithm>

#include "base/checked.h"
#include "spec/run_plan.h"

namespace gptrain {

std::int64_t BatchSchedule::size_at(std::int64_t consumed_samples) const {
    if (consumed_samples >= rampup.samples) return global_batch_size;
    const std::int64_t increments = (global_batch_size - rampup.start) / rampup.increment;
    return rampup.start + rampup.increment * (consumed_samples * increments / rampup.samples);
}

namespace {

/// A batch size of the ramp, until this many samples are consumed. The loops below have one
/// iteration for each, not for each step: a run may have billions of steps.
struct Level {
    std::int64_t size;
    std::int64_t end;
};

Level level_at(const BatchSchedule& schedule, std::int64_t consumed) {
    const RampupSpec& rampup = schedule.rampup;
    const std::int64_t rise = schedule.global_batch_size - rampup.start;
    const std::int64_t increments = std::max<std::int64_t>(rise / rampup.increment, 0);
    if (increments == 0) return {rampup.start, rampup.samples};
    const std::int64_t level = consumed * increments / rampup.samples;
    return {rampup.start + rampup.increment * level,
            div_ceil((level + 1) * rampup.samples, increments)};
}

}  // namespace

std::int64_t BatchSchedule::samples_of(std::int64_t steps, std::int64_t consumed) const {
    while (steps > 0 && consumed < rampup.samples) {
        const Level level = level_at(*this, consumed);
        const std::int64_t taken = std::min(steps, div_ceil(level.end - consumed, level.size));
        consumed += taken * level.size;
        steps -= taken;
    }
    return checked_add(consumed, checked_mul(steps, global_batch_size));
}

std::int64_t BatchSchedule::steps_of(std::int64_t samples) const {
    std::int64_t steps = 0;
    std::int64_t consumed = 0;
    while (consumed < std::min(samples, rampup.samples)) {
        const Level level = level_at(*this, consumed);
        const std::int64_t taken = div_ceil(std::min(samples, level.end) - consumed, level.size);
        consumed += taken * level.size;
        steps += taken;
    }
    return steps + div_ceil(std::max<std::int64_t>(samples - consumed, 0), global_batch_size);
}

}  // namespace gptrain
