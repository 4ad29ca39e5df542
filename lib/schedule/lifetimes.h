// Assigns memory to actions: indices in use at the same time differ, and free ones are reused.
#pragma once

#include <vector>

#include "schedule/action.h"
#include "schedule/pipeline_shape.h"

namespace gptrain {

/// Fills in the slots of a list of compute actions, with or without messages. Returns the number of
/// slots.
std::int64_t assign_slots(const PipelineShape& shape, std::vector<Action>& actions);

/// The most microbatches at once between F and BW or B of the model's last chunk; 0 if the stage
/// lacks that chunk.
std::int64_t max_in_head(const PipelineShape& shape, std::int64_t stage,
                         const std::vector<Action>& actions);

/// Fills in the boundary buffers and returns their number. A buffer is allocated by the receive, or
/// by the action that writes it, and freed after the action that reads it. Sends to one stage in
/// one direction alternate between two buffers, so that one is written while the other is in
/// flight.
std::int64_t assign_buffers(const PipelineShape& shape, std::int64_t stage,
                            std::vector<Action>& actions);

}  // namespace gptrain
