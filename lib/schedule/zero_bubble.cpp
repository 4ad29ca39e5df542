#include <algorithm>

#include "schedule/compute_order.h"

namespace gptrain {

std::vector<Action> zero_bubble_order(const PipelineShape& shape, std::int64_t stage) {
    using enum ActionKind;
    ComputeOrder order(shape);
    for (std::int64_t i = 0; i < shape.stages - 1 - stage; ++i) {
        order.next(forward);
    }
    for (std::int64_t i = 0; i < shape.microbatches; ++i) {
        order.next({forward, backward_inputs});
        if (i >= stage) order.next(backward_weights);
    }
    for (std::int64_t i = 0; i < stage; ++i) {
        order.next(backward_weights);
    }
    return order.take();
}

// F of a microbatch runs down chunk 0 of stages 0 to p - 1 and back up chunk 1; its B returns the
// same way.
std::vector<Action> zero_bubble_v_order(const PipelineShape& shape, std::int64_t stage) {
    using enum ActionKind;
    const std::int64_t to_turn = shape.stages - stage;
    // At least the most that can be in flight, so that every phase below exists.
    const std::int64_t microbatches = std::max(shape.microbatches, 2 * shape.stages - 1);
    ComputeOrder order(shape);
    // Warmup: F down until the first microbatch comes back up, ...
    for (std::int64_t i = 0; i < 2 * to_turn - 1; ++i) {
        order.next(forward, 0);
    }
    // ... F up and down until its gradient comes down, ...
    for (std::int64_t i = 0; i < stage; ++i) {
        order.next(forward, 1);
        order.next(forward, 0);
    }
    // ... and chunk 1 only, until that gradient comes back up.
    for (std::int64_t i = 0; i < to_turn; ++i) {
        order.next({forward, backward_inputs, backward_weights}, 1);
    }
    // Steady: one microbatch through everything.
    for (std::int64_t i = 0; i < microbatches - shape.stages; ++i) {
        order.next({forward, backward_inputs, backward_weights}, 0);
        order.next({forward, backward_inputs, backward_weights}, 1);
    }
    // Cooldown: what other stages wait for comes first.
    for (std::int64_t i = 0; i < stage; ++i) {
        order.next(backward_inputs, 0);
        order.next(backward_inputs, 1);
    }
    for (std::int64_t i = 0; i < to_turn; ++i) {
        order.next({backward_inputs, backward_weights}, 0);
    }
    for (const std::int64_t chunk : {1, 0}) {
        for (std::int64_t i = 0; i < stage; ++i) {
            order.next(backward_weights, chunk);
        }
    }
    return order.take();
}

}  // namespace gptrain
