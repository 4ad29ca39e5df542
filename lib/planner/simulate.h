// Runs the action lists of all stages of a pipeline against a clock.
#pragma once

#include "planner/timeline.h"

namespace gptrain {

/// Seconds of a chunk's actions; BW takes as long as B and W.
struct ChunkCost {
    double forward = 1;
    double backward_inputs = 1;
    double backward_weights = 1;
};

struct PipelineCosts {
    std::vector<ChunkCost> chunks;  ///< by position in the model
    double message = 0;             ///< seconds of a message between two stages
};

/// The timeline of the lists under the rules of schedule.h, for the worst communicators that they
/// allow: one message at a time from a stage to another, in order, which starts once it is sent and
/// its receive is posted. A message that takes time is an event of the stage that sends it.
///
/// An Error (bug) names stages and actions where
/// - stages wait for each other, or for a stage that has ended;
/// - a receive meets another message than its own, or a message has no other end;
/// - an action finds something else in its input buffer than what it reads, or a send in its output
///   buffer.
Timeline simulate(const Pipeline& pipeline, const PipelineCosts& costs);

}  // namespace gptrain
