// The layers that one pipeline stage runs in a row: the whole model where there is one stage.
#pragma once

#include <functional>
#include <vector>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"

namespace gptrain {

/// Sizes of what a chunk keeps between its actions.
struct ChunkMemory {
    std::int64_t slots = 1;  ///< microbatches between their F and their last backward action
    std::int64_t sequences = 0;
    std::int64_t seq_length = 0;
    Recompute recompute = Recompute::selective;
    bool defer_weights = false;  ///< the schedule has B and W
    bool first_visible = false;  ///< batches carry it
};

class GptChunk {
public:
    /// Called in the last microbatch's backward with the flat position up to which gradients are
    /// final.
    using GradsFinal = std::function<void(std::int64_t end)>;

    GptChunk(const ModelContext& context, const Parameters& parameters, const ChunkPart& part);

    /// Takes all memory that the chunk keeps. Once, before the first action.
    void reserve(const ChunkMemory& memory);
    /// The batch of a slot, to be filled before F.
    const Batch& batch(std::int64_t slot) const { return slots_[index(slot)].batch; }

    /// F: the loss is added to the step state, the head's gradients are done.
    void forward(const StepRef& step);
    /// The loss alone: nothing is kept, nothing dropped.
    void evaluate(const Batch& batch, const StepRef& step);
    /// BW, B or W. `final` may be empty.
    void backward(const StepRef& step, BackwardPart part, const GradsFinal& final);

    /// logits [B, V] for the token after each sequence of `batch`, whose tokens follow those in the
    /// caches (one for each layer).
    void next_token_logits(const Batch& batch, std::vector<KvCache>& caches, const Tensor& logits);
    std::vector<KvCache> reserve_caches(Arena& arena, std::int64_t sequences,
                                        std::int64_t capacity) const;

private:
    struct Slot {
        Batch batch;
        std::vector<SavedBlock> blocks;
        SavedHead head;
        std::vector<DeferredBlock> deferred;
    };
    std::size_t index(std::int64_t slot) const;
    Pass training_pass(const StepRef& step) const {
        return {.batch = batch(step.slot), .step = step, .training = true};
    }
    StreamBuffers stream_buffers(std::int64_t tokens) const;
    /// Through embedding and blocks with nothing kept.
    Stream run_transient(const Pass& pass, const StreamBuffers& buffers,
                         std::vector<KvCache>* caches);
    /// The dropout of the branch that enters layer i of the chunk.
    Dropout incoming(std::size_t layer, const Pass& pass) const;
    /// For one way back through the chunk; 0 all of them.
    Maxima grad_maxima() const;
    void backward_inputs(Slot& slot, const Pass& pass, BackwardPart part, const GradsFinal& final);
    void backward_weights(Slot& slot, const Pass& pass, const GradsFinal& final);
    std::int64_t block_end(std::size_t layer) const;

    const ModelContext& context_;
    const Parameters& parameters_;
    ChunkPart part_;
    Embedding embedding_;
    std::vector<Block> blocks_;
    std::vector<std::string> names_;  ///< of the blocks, for profiles
    Head head_;
    Recompute recompute_ = Recompute::selective;
    std::vector<Slot> slots_;
};

}  // namespace gptrain
