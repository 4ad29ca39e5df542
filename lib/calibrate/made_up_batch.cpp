#include "calibrate/made_up_batch.h"

#include <algorithm>

namespace gptrain {

StepBatch made_up_batch(const RunPlan& plan, std::int64_t data_rank) {
    Microbatch microbatch;
    const std::int64_t tokens = plan.micro_batch_size * plan.seq_length;
    const bool windows = plan.limits_attention();
    for (std::int64_t i = 0; i < tokens; ++i) {
        const auto id = static_cast<std::int32_t>(i * 7919 % plan.model.vocab);
        const auto position = static_cast<std::int32_t>(i % plan.seq_length);
        microbatch.ids.push_back(id);
        microbatch.targets.push_back(static_cast<std::int32_t>((id + 1) % plan.model.vocab));
        microbatch.positions.push_back(position);
        microbatch.weights.push_back(1.0f);
        if (plan.end_of_document.reset) microbatch.first_visible.push_back(0);
        if (windows) {
            const std::int64_t first = position + 1 - *plan.model.sliding_window;
            microbatch.first_in_window.push_back(
                static_cast<std::int32_t>(std::max<std::int64_t>(first, 0)));
        }
    }
    microbatch.sources.assign(static_cast<std::size_t>(plan.micro_batch_size), 0);
    StepBatch batch;
    batch.global_batch_size = plan.batch.global_batch_size;
    const std::int64_t count = plan.microbatches(batch.global_batch_size, data_rank);
    batch.weight_sum = static_cast<double>(batch.global_batch_size * plan.seq_length);
    batch.microbatches.assign(static_cast<std::size_t>(count), microbatch);
    return batch;
}

}  // namespace gptrain
