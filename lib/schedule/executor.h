// Runs the actions of a schedule on a chunk.
#pragma once

#include <span>

#include "data/batch_loader.h"
#include "model/chunk.h"
#include "model/grad_buckets.h"
#include "schedule/schedule.h"

namespace gptrain {

class Executor {
public:
    /// `step` is the run's step state; its slot is ignored. `alone`: no action of the chunk speaks
    /// to other ranks.
    Executor(Backend& backend, GptChunk& chunk, GradBuckets& buckets, const StepRef& step,
             bool alone)
        : backend_(backend), chunk_(chunk), buckets_(buckets), step_(step), alone_(alone) {}

    /// Forward and backward of a step: adds the weighted loss to the step state and the gradients
    /// to main_grad, and sums the gradients over the ranks that share parameters.
    void train(const Schedule& schedule, std::span<const Microbatch> microbatches);
    /// Adds the weighted loss of the microbatches to the step state.
    void evaluate(std::span<const Microbatch> microbatches);

private:
    /// The step state with the slot that holds the microbatch, after its tokens were copied there.
    StepRef load(const Microbatch& microbatch, std::int64_t slot);
    StepRef at_slot(std::int64_t slot) const;
    /// Does the work of an action; as the same ops as ever where nothing of it is for other ranks.
    void act(ActionKind kind, std::int64_t slot, const GptChunk::GradsFinal& final);

    Backend& backend_;
    GptChunk& chunk_;
    GradBuckets& buckets_;
    StepRef step_;
    bool alone_;
};

}  // namespace gptrain
