#include "infer/token_batch.h"

#include <algorithm>

namespace gptrain {

TokenBatch::TokenBatch(Arena& arena, const RunPlan& plan, std::int64_t rows)
    : plan_(plan), all_(reserve_batch(arena, {1, rows}, {.window = plan.limits_attention()})) {}

Batch TokenBatch::upload(Backend& backend, const Shape& shape, std::span<const std::int32_t> tokens,
                         std::vector<std::int32_t> positions) const {
    const auto part = [&](const Tensor& whole) {
        return whole.slice(1, 0, std::ssize(tokens)).view(shape);
    };
    Batch batch;
    batch.ids = part(all_.ids);
    batch.positions = part(all_.positions);
    batch.stream_positions = batch.positions;
    batch.only_text = std::all_of(tokens.begin(), tokens.end(), [](auto id) { return id >= 0; });
    backend.upload(batch.ids, std::as_bytes(tokens));
    backend.upload(batch.positions, std::as_bytes(std::span(positions)));
    if (all_.first_in_window.empty()) return batch;
    batch.first_in_window = part(all_.first_in_window);
    const auto before = narrow<std::int32_t>(*plan_.model.sliding_window - 1);
    for (std::int32_t& position : positions)
        position = std::max(position - before, 0);
    backend.upload(batch.first_in_window, std::as_bytes(std::span(positions)));
    return batch;
}

}  // namespace gptrain
