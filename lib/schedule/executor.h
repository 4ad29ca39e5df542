// Runs the actions of a schedule on the chunks of a stage.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "data/batch_loader.h"
#include "model/grad_buckets.h"
#include "model/sequence.h"
#include "schedule/action_listener.h"
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
    /// `step` is the run's step state; its slot is ignored.
    Executor(Stage stage, GradBuckets& buckets, const StepRef& step);

    /// From now on `listener`, which outlives the executor, is told of all actions.
    void listen(ActionListener& listener) { listeners_.add(listener); }

    /// Forward and backward of a step: adds the weighted loss to the step state (on the last stage)
    /// and the gradients to main_grad, and sums the gradients over dp and cp.
    void train(const Schedule& schedule, std::span<const Microbatch> microbatches);
    /// Adds the weighted loss of the microbatches to the step state (on the last stage).
    void evaluate(const Schedule& schedule, std::span<const Microbatch> microbatches);

private:
    /// A boundary buffer, and the message under way to or from it.
    struct Buffer {
        Tensor tensor;
        Pending message = {};
        std::optional<Action> under_way = {};  ///< of the message, until it was waited for
        bool parts = false;                    ///< what arrives is this rank's part of it
    };
    /// Waits for the buffer's message, if any.
    void settle(Buffer& buffer);
    void settle_all();
    Buffer& buffer(std::int64_t index) { return buffers_[static_cast<std::size_t>(index)]; }
    /// The buffer after its message; empty for none.
    Tensor ready(std::int64_t index);
    Boundary boundary(const Action& action) {
        return {.input = ready(action.input), .output = ready(action.output)};
    }
    /// Where tp ranks hold the same activations each sends its part, and the receivers gather them
    /// (Narayanan et al. 2021, arXiv 2104.04473, scatter/gather).
    bool sends_parts() const;
    Tensor own_part(const Tensor& whole) const;
    Communicator& channel(const Action& action) const;
    void send(const Action& action);
    void receive(const Action& action);

    void load(const Action& action, std::span<const Microbatch> microbatches);
    Pass pass(std::int64_t slot, bool training) const;
    /// Does the work of an action; as the same ops as ever where nothing of it is for other ranks.
    void compute(const Action& action, const Boundary& ends, const GptChunk::GradsFinal& final);
    /// What becomes of a chunk's gradients with the last action that adds to them.
    GptChunk::GradsFinal reduction(const Schedule& schedule, std::size_t index);
    std::int64_t replay_key(const Action& action) const;

    Stage stage_;
    GradBuckets& grad_buckets_;
    StepRef step_;
    ActionListeners listeners_;
    std::vector<Buffer> buffers_;
};

}  // namespace gptrain
