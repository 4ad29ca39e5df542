#include "infer/token_batch.h"

#include <algorithm>
#include <utility>

namespace gptrain {

TokenBatch::TokenBatch(Arena& arena, const RunPlan& plan, std::int64_t rows)
    : plan_(plan), all_(reserve_batch(arena, {1, rows}, {.window = plan.limits_attention()})) {
    // There is no loss.
    all_.targets = {};
    all_.weights = {};
}

Batch TokenBatch::upload(Backend& backend, const Shape& shape, std::span<const std::int32_t> tokens,
                         std::vector<std::int32_t> positions) const {
    Batch batch = shortened(all_, shape);
    batch.only_text = std::all_of(tokens.begin(), tokens.end(), [](auto id) { return id >= 0; });
    Microbatch values;
    values.ids.assign(tokens.begin(), tokens.end());
    if (!batch.first_in_window.empty()) {
        const auto before = narrow<std::int32_t>(*plan_.model.sliding_window - 1);
        for (const std::int32_t position : positions)
            values.first_in_window.push_back(std::max(position - before, 0));
    }
    values.positions = std::move(positions);
    upload_batch(backend, batch, values);
    return batch;
}

}  // namespace gptrain
