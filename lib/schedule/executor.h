// Runs the actions of a schedule on the chunks of a stage.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "data/microbatch.h"
#include "model/grad_buckets.h"
#include "model/sequence.h"
#include "schedule/action_runner.h"
#include "schedule/stage_memory.h"

namespace gptrain {

/// The stage that an executor works on; everything here must outlive it.
struct Stage {
    const ModelContext& context;
    const std::vector<GptChunk>& chunks;
    const Parameters& parameters;
    StageMemory memory;
    std::int64_t seq_length = 0;        ///< length of whole sequences
    std::vector<SequenceSlice> slices;  ///< this cp rank's slices of them
    StreamSlice stream;
};

/// A forward pass of a microbatch through a chunk, without dropout, for which nothing is kept.
struct ForwardAction {
    const GptChunk& chunk;
    const Pass& pass;
    const Boundary& ends;
    std::size_t microbatch = 0;
};

class Executor {
public:
    /// `step` is the run's step state; its slot is ignored. `buckets` must outlive the executor;
    /// without them it can only evaluate.
    Executor(Stage stage, const StepRef& step, GradBuckets* buckets = nullptr);

    const StageMemory& memory() const { return stage_.memory; }

    /// Reports all actions to `listener`, which must outlive the executor.
    void listen(ActionListener& listener) { runner_.listeners().add(listener); }

    /// Runs forward and backward of a step: adds the weighted loss to the step state (last stage),
    /// overwrites or adds to main_grad (cleared_ranges), and sums the gradients over dp and cp.
    void train(const Schedule& schedule, std::span<const Microbatch> microbatches,
               std::int64_t expert_slices = 1);
    /// Values of a microbatch that runs alone: an action's input, which it has from another action
    /// or stage, or what the rank computes.
    enum class Seen { input, result };
    using See = std::function<void(Seen, const Tensor&)>;
    /// Runs forward and backward of one microbatch, as the first of a step, with the schedule of
    /// one microbatch. Its gradients stay on this rank. `see` gets the input and the output of each
    /// action, and every gradient once it is final, in the same order each time.
    void run_alone(const Schedule& schedule, const Microbatch& microbatch,
                   std::int64_t expert_slices, const See& see);
    /// Adds the weighted loss and the measures of the microbatches to a step state (the loss on the
    /// last stage).
    void evaluate(const Schedule& schedule, std::span<const Microbatch> microbatches,
                  const StepRef& step);
    /// Calls `work` with each action of a forward schedule.
    using ForwardWork = std::function<void(const ForwardAction&)>;
    void forward(const Schedule& schedule, std::span<const Microbatch> microbatches,
                 const ForwardWork& work);

private:
    void load(const Action& action, std::span<const Microbatch> microbatches);
    Pass pass(std::int64_t slot, bool training) const;
    /// Computes action `index`; replays it if it does not communicate with other ranks.
    void compute(const Schedule& schedule, std::size_t index, const Boundary& ends);
    /// Reports final gradients to the buckets; empty unless action `index` is the last that adds to
    /// them.
    GptChunk::GradsFinal grads_final(const Schedule& schedule, std::size_t index);
    std::int64_t replay_key(const Action& action, bool first_gradients) const;

    Stage stage_;
    StepRef step_;
    GradBuckets* grad_buckets_;
    ActionRunner runner_;
    std::int64_t expert_slices_ = 1;  ///< of training
};

}  // namespace gptrain
