// Runs the actions of a schedule on the chunks of a stage.
#pragma once

#include <span>
#include <vector>

#include "data/batch_loader.h"
#include "model/grad_buckets.h"
#include "model/sequence.h"
#include "schedule/action_runner.h"
#include "schedule/stage_memory.h"

namespace gptrain {

/// What an executor works on; all of it outlives it.
struct Stage {
    const ModelContext& context;
    const std::vector<GptChunk>& chunks;
    const Parameters& parameters;
    StageMemory memory;
    std::int64_t seq_length = 0;        ///< of whole sequences
    std::vector<SequenceSlice> slices;  ///< what this rank of cp has of them
    StreamSlice stream;
};

class Executor {
public:
    /// `step` is the run's step state; its slot is ignored. Without buckets, which outlive it, it
    /// can only evaluate.
    Executor(Stage stage, const StepRef& step, GradBuckets* buckets = nullptr);

    /// From now on `listener`, which outlives the executor, is told of all actions.
    void listen(ActionListener& listener) { runner_.listeners().add(listener); }

    /// Forward and backward of a step: adds the weighted loss to the step state (on the last stage)
    /// and the gradients to main_grad, and sums the gradients over dp and cp.
    void train(const Schedule& schedule, std::span<const Microbatch> microbatches);
    /// Adds the weighted loss of the microbatches to the step state (on the last stage).
    void evaluate(const Schedule& schedule, std::span<const Microbatch> microbatches);

private:
    void load(const Action& action, std::span<const Microbatch> microbatches);
    Pass pass(std::int64_t slot, bool training) const;
    /// Does the work of an action; as the same ops as ever where nothing of it is for other ranks.
    void compute(const Action& action, const Boundary& ends, const GptChunk::GradsFinal& final);
    /// What becomes of a chunk's gradients with the last action that adds to them.
    GptChunk::GradsFinal reduction(const Schedule& schedule, std::size_t index);
    std::int64_t replay_key(const Action& action) const;

    Stage stage_;
    StepRef step_;
    GradBuckets* grad_buckets_;
    ActionRunner runner_;
};

}  // namespace gptrain
