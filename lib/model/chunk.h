// The layers that one pipeline stage runs in a row: the whole model where there is one chunk.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"

namespace gptrain {

/// What a chunk keeps of a microbatch from its F to its last backward action.
struct SavedChunk {
    std::vector<SavedBlock> blocks;
    SavedHead head;
    /// Of each block, from B to W. Unless blocks are recomputed, those of a block lie in what B has
    /// used up of the block behind it, the last one's in the first.
    std::vector<DeferredBlock> deferred;
};

/// How much of it.
struct SavedSizes {
    std::int64_t seq_length = 0;
    Recompute recompute = Recompute::selective;
    bool defer_weights = false;  ///< the schedule has B and W; selective then keeps as none does
};

/// What an action takes from the neighbouring chunks and leaves to them, [B S, H] of the residual
/// stream: activations on the way forward, their gradients on the way back. Empty at the model's
/// ends.
struct Boundary {
    Tensor input;
    Tensor output;
};

class GptChunk {
public:
    /// Called in the last microbatch's backward with the flat position up to which gradients are
    /// final.
    using GradsFinal = std::function<void(std::int64_t end)>;

    /// `flat` is the chunk's range of the flat buffers.
    GptChunk(const ModelContext& context, Parameters& parameters, const ChunkPart& part,
             const Bucket& flat);

    /// Memory in `arena` for one microbatch, but for the head's.
    SavedChunk reserve(Arena& arena, const SavedSizes& sizes) const;
    /// The head's, of the last chunk: from F to BW or B.
    SavedHead reserve_head(Arena& arena, std::int64_t seq_length) const;

    /// F: all of `saved`. In the last chunk the loss is added to the step state and the head's
    /// gradients are done.
    void forward(const Pass& pass, const SavedChunk& saved, const Boundary& boundary) const;
    /// The loss alone, or what leads there: nothing is kept, nothing dropped.
    void evaluate(const Pass& pass, const Boundary& boundary) const;
    /// BW, B or W. `final` may be empty.
    void backward(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                  BackwardPart part, const GradsFinal& final) const;

    /// Tokens that follow those in the caches, one for each layer of the chunk. The last chunk
    /// gives logits [B, V], of this rank's V, for the token after each sequence.
    void next_token(const Batch& batch, std::vector<KvCache>& caches, const Boundary& boundary,
                    const Tensor& logits) const;
    std::vector<KvCache> reserve_caches(Arena& arena, std::int64_t sequences,
                                        std::int64_t capacity) const;

private:
    StreamBuffers stream_buffers(const Shape& shape) const;
    /// Through embedding and blocks with nothing kept.
    Stream run_transient(const Pass& pass, const Tensor& input, const StreamBuffers& buffers,
                         std::vector<KvCache>* caches) const;
    /// Where the stream begins: r = the embeddings, or what came from the chunk before.
    void enter(const Pass& pass, const Tensor& input, const Tensor& r) const;
    /// output = the sum that the next chunk's first norm reads.
    void leave(const Pass& pass, const Stream& stream, const Tensor& output) const;
    /// The dropout of the branch that enters layer i of the chunk.
    Dropout incoming(std::size_t layer, const Pass& pass) const;
    /// For one way back through the chunk; 0 all of them.
    Maxima grad_maxima() const;
    /// Where the gradient of the stream begins: at the loss, or with what came from the next chunk.
    void begin_gradient(const Pass& pass, const SavedChunk& saved, const Tensor& input,
                        StreamGrad& grad) const;
    void backward_inputs(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                         BackwardPart part, const GradsFinal& final) const;
    void backward_weights(const Pass& pass, const SavedChunk& saved, const GradsFinal& final) const;
    /// The flat range of a block.
    Bucket block_range(std::size_t layer) const;
    /// Before the block, or the head after the last one, is computed with.
    void await_block(std::size_t layer) const;

    const ModelContext& context_;
    Parameters& parameters_;
    ChunkPart part_;
    Bucket flat_;
    std::optional<Embedding> embedding_;
    std::vector<Block> blocks_;
    std::vector<std::string> names_;  ///< of the blocks, for profiles
    std::optional<Head> head_;
};

}  // namespace gptrain
