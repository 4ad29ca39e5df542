// The messages between chunks that an order of compute actions requires.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "schedule/action.h"
#include "schedule/pipeline_shape.h"

namespace gptrain {

/// The chunk whose output F, BW or B reads; none at the model's ends, and for W.
std::optional<ChunkPlace> producer_of(const PipelineShape& shape, std::int64_t stage,
                                      const Action& action);
/// The chunk that reads the output of F, BW or B; none at the model's ends, and for W.
std::optional<ChunkPlace> consumer_of(const PipelineShape& shape, std::int64_t stage,
                                      const Action& action);

/// True for F and messages of activations, which move towards the model's end.
constexpr bool moves_forward(ActionKind kind) {
    using enum ActionKind;
    return kind == forward || kind == send_activations || kind == receive_activations;
}

/// Index, below 2 v m, of an input of one of the stage's chunks: a microbatch's activations or
/// gradient, read by chunk `reader`.
inline std::size_t arrival_index(const PipelineShape& shape, const Action& action,
                                 std::int64_t reader) {
    const std::int64_t way = moves_forward(action.kind) ? 0 : 1;
    return static_cast<std::size_t>((2 * reader + way) * shape.microbatches + action.microbatch);
}
inline std::size_t arrivals(const PipelineShape& shape) {
    return static_cast<std::size_t>(2 * shape.virtual_stages * shape.microbatches);
}

/// Returns the compute actions of any stage of the pipeline.
using OrderOf = std::function<std::vector<Action>(std::int64_t stage)>;

/// The stage's order with its sends and receives, placed as schedule.h describes.
std::vector<Action> with_messages(const PipelineShape& shape, std::int64_t stage,
                                  const OrderOf& order_of);

}  // namespace gptrain
