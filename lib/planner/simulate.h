// Simulates the action lists of all stages of a pipeline.
#pragma once

#include <array>

#include "planner/timeline.h"

namespace gptrain {

/// Seconds of a chunk's actions. BW takes as long as B plus W.
struct ChunkCost {
    double forward = 1;
    double backward_inputs = 1;
    double backward_weights = 1;
    /// The time that the step's first weight gradients of the chunk save, because they overwrite.
    double first_saving = 0;
    /// The head's weight gradient, in the last chunk: a part of F, unless it is deferred.
    double head_weights = 0;

    static constexpr auto parts() {
        return std::array{&ChunkCost::forward, &ChunkCost::backward_inputs,
                          &ChunkCost::backward_weights, &ChunkCost::first_saving,
                          &ChunkCost::head_weights};
    }
};

struct PipelineCosts {
    std::vector<ChunkCost> chunks;  ///< in the model's order
    double message = 0;             ///< seconds of a message between two stages
};

/// Simulates the lists under the rules of schedule.h, with the slowest communicators that these
/// rules allow: between two stages, one message at a time, in order, each starting once it is sent
/// and its receive is posted. A message that takes time is an event of the sending stage.
///
/// An Error (bug) that names stages and actions is thrown if
///  - stages wait for each other, or for a stage that has finished;
///  - a receive meets a message that is not its own, or a message has no other end;
///  - an action's input buffer, or a send's output buffer, does not hold the expected contents.
Timeline simulate(const Pipeline& pipeline, const PipelineCosts& costs);

}  // namespace gptrain
