#include <algorithm>

#include "base/checked.h"
#include "spec/run_plan.h"

namespace gptrain {

std::int64_t BatchSchedule::size_at(std::int64_t consumed_samples) const {
    if (consumed_samples >= rampup.samples) return global_batch_size;
    const std::int64_t increments = (global_batch_size - rampup.start) / rampup.increment;
    return rampup.start + rampup.increment * (consumed_samples * increments / rampup.samples);
}

std::int64_t BatchSchedule::samples_of(std::int64_t steps, std::int64_t consumed) const {
    const std::int64_t increments =
        rampup.samples > 0 ? (global_batch_size - rampup.start) / rampup.increment : 0;
    // One iteration per batch size of the ramp, not per step: a run may have billions of steps.
    while (steps > 0 && consumed < rampup.samples) {
        const std::int64_t level = consumed * increments / rampup.samples;
        const std::int64_t level_end =
            increments == 0 ? rampup.samples : div_ceil((level + 1) * rampup.samples, increments);
        const std::int64_t size = rampup.start + rampup.increment * level;
        const std::int64_t taken = std::min(steps, div_ceil(level_end - consumed, size));
        consumed += taken * size;
        steps -= taken;
    }
    return checked_add(consumed, steps * global_batch_size);
}

}  // namespace gptrain
