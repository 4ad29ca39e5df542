#include "engine/long_step.h"

#include <algorithm>

#include "backend/buffer.h"
#include "base/dtype.h"

namespace gptrain {

std::int64_t most_microbatches(const RunPlan& plan) {
    return plan.microbatches(plan.batch.global_batch_size);
}

RunPlan with_microbatches(const RunPlan& plan, std::int64_t count) {
    RunPlan other = plan;
    const std::int64_t fewer = most_microbatches(plan) - count;
    other.batch = {.global_batch_size = plan.batch.global_batch_size -
                                        fewer * plan.micro_batch_size * plan.mesh.data,
                   .rampup = {}};
    return other;
}

std::int64_t full_microbatches(const RunPlan& plan) {
    return 64 + 8 * plan.mesh.pipeline + plan.deferred_heads;
}

std::optional<LongStep> shortened(const RunPlan& plan) {
    // With gpipe every microbatch has a slot, and slots share what is rounded up to the alignment
    // of memory. Interleaved stages take microbatches in groups of as many as there are stages.
    const std::int64_t group = plan.schedule == ScheduleKind::gpipe
                                   ? Arena::alignment / size_of(DType::i64)
                                   : plan.mesh.pipeline;
    const std::int64_t count = most_microbatches(plan);
    const std::int64_t full = full_microbatches(plan);
    if (count <= std::max(most_executed, full + 2 * group)) return std::nullopt;
    const std::int64_t groups = (count - full) / group;
    return LongStep{.shorter = with_microbatches(plan, count - groups * group),
                    .longer = with_microbatches(plan, count - (groups - 1) * group),
                    .groups = groups};
}

}  // namespace gptrain
