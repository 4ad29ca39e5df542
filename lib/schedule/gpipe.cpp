#include "schedule/compute_order.h"

namespace gptrain {

std::vector<Action> gpipe_order(const PipelineShape& shape) {
    ComputeOrder order(shape);
    for (std::int64_t m = 0; m < shape.microbatches; ++m) {
        order.next(ActionKind::forward);
    }
    for (std::int64_t m = shape.microbatches; m-- > 0;) {
        order.append({ActionKind::backward, m});
    }
    return order.take();
}

}  // namespace gptrain
