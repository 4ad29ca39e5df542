#include "base/checked.h"
#include "schedule/compute_order.h"

namespace gptrain {

std::vector<Action> one_f_one_b_order(const PipelineShape& shape, std::int64_t stage) {
    const std::int64_t p = shape.stages;
    const std::int64_t v = shape.virtual_stages;
    const auto chunk = [&](std::int64_t step) { return step % (p * v) / p; };
    // The first gradient reaches a stage as many hops after its last warmup F as stages follow it.
    // With interleaved chunks, F continues during the way back as well.
    const std::int64_t stages_after = p - 1 - stage;
    const std::int64_t warmup = v == 1 ? stages_after : 2 * stages_after + (v - 1) * p;

    ComputeOrder order(shape);
    for (std::int64_t step = 0; step < warmup; ++step) {
        order.next(ActionKind::forward, chunk(step));
    }
    const std::int64_t steps = round_up(shape.microbatches, p) * v;
    for (std::int64_t step = 0; step < steps; ++step) {
        order.next(ActionKind::forward, chunk(warmup + step));
        order.next(ActionKind::backward, v - 1 - chunk(step));
    }
    return order.take();
}

}  // namespace gptrain
