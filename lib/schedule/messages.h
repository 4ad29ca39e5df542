// What an order of compute actions asks of the boundaries between chunks.
#pragma once

#include <functional>
#include <optional>

#include "schedule/schedule.h"

namespace gptrain {

/// The chunk whose output F, BW or B reads; none at the model's end, and for W.
std::optional<ChunkPlace> source_of(const PipelineShape& shape, std::int64_t stage,
                                    const Action& action);
/// The chunk that reads what F, BW or B writes; none at the model's end, and for W.
std::optional<ChunkPlace> target_of(const PipelineShape& shape, std::int64_t stage,
                                    const Action& action);

/// F or a message of activations: it moves towards the model's end.
constexpr bool moves_forward(ActionKind kind) {
    using enum ActionKind;
    return kind == forward || kind == send_activations || kind == receive_activations;
}

/// Numbers what chunks of a stage read, from 0 up to 2 v m: the activations of a microbatch for a
/// chunk, or the gradient.
inline std::size_t arrival_index(const PipelineShape& shape, const Action& action,
                                 std::int64_t reader) {
    const std::int64_t way = moves_forward(action.kind) ? 0 : 1;
    return static_cast<std::size_t>((2 * reader + way) * shape.microbatches + action.microbatch);
}
inline std::size_t arrivals(const PipelineShape& shape) {
    return static_cast<std::size_t>(2 * shape.virtual_stages * shape.microbatches);
}

/// The compute actions of any stage of the same pipeline.
using OrderOf = std::function<std::vector<Action>(std::int64_t stage)>;

/// The stage's order with its sends and receives, placed as schedule.h says.
std::vector<Action> with_messages(const PipelineShape& shape, std::int64_t stage,
                                  const OrderOf& order_of);

}  // namespace gptrain
