// Which memory the actions of a list use: numbers that are in use at the same time differ, and a
// number that is free again is used again.
#pragma once

#include "schedule/schedule.h"

namespace gptrain {

/// Fills in the slots of a list of compute actions with or without messages; returns how many there
/// are.
std::int64_t assign_slots(const PipelineShape& shape, std::vector<Action>& actions);

/// The most microbatches that are at a time between F and BW or B of the model's last chunk; 0 on a
/// stage that has it not.
std::int64_t most_in_head(const PipelineShape& shape, std::int64_t stage,
                          const std::vector<Action>& actions);

/// Fills in the boundary buffers and returns how many there are. A buffer that is received, or
/// passed on to a chunk of the same stage, is taken by the receive or the action that writes it and
/// is free after the action that reads it. What is sent to one stage in one direction alternates
/// between two buffers, so that the next one is written while the last is on its way.
std::int64_t assign_buffers(const PipelineShape& shape, std::int64_t stage,
                            std::vector<Action>& actions);

}  // namespace gptrain
