// A range of layers that a pipeline stage runs as a unit; the whole model if there is one chunk:
//
//   x    = embedding(ids), or the previous chunk's output  [T, H]
//   x    = block_i(x) for each layer i of the chunk        [T, H]
//   loss = head(x), or x goes to the next chunk
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"

namespace gptrain {

/// The tensors that a chunk keeps of a microbatch, from F to the last backward action.
struct SavedChunk {
    SavedNorm embedded;  ///< with embedding_norm: the embeddings before it
    /// With `hosts`, block i's is in one of two windows on the device, which other chunks, slots
    /// and blocks i + 2 and i - 2 use as well.
    std::vector<SavedBlock> blocks;
    /// With offload: the places in host memory of the blocks' streams, attention.branch.norm.r.
    std::vector<Tensor> hosts;
    SavedHead head;
    /// Gradients kept from B to W, one entry per block.
    std::vector<DeferredBlock> deferred;
    /// Block i's overlay the tensors of block i + 1 that B no longer needs, and the last block's
    /// those of the first. Not if blocks are recomputed, or differ: some have experts.
    bool overlays_deferred = false;
};

/// Everything that the size of SavedChunk depends on.
struct SavedSizes {
    std::int64_t seq_length = 0;
    Recompute recompute = Recompute::selective;
    bool defer_weights = false;  ///< the schedule splits B and W: selective then equals none
    bool on_host = false;        ///< what blocks keep waits in host memory; needs Recompute::full
};

/// Two places on the device for streams of blocks that wait in host memory, [T, H] each.
using StreamWindows = std::array<Tensor, 2>;

/// Tensors exchanged with the neighbouring chunks, [B S, H]: activations of the residual stream in
/// forward, their gradients in backward. Empty at the ends of the model.
struct Boundary {
    Tensor input;
    Tensor output;
};

class GptChunk {
public:
    /// Called in the last microbatch's backward. Gradients before flat position `end` are final.
    using GradsFinal = std::function<void(std::int64_t end)>;

    /// `flat`: where its trained parameters are.
    GptChunk(const ModelContext& context, Parameters& parameters, const ChunkPart& part,
             ChunkRange flat);

    /// Allocates what one microbatch keeps, except for the head. With sizes.on_host the streams of
    /// blocks are in host memory, and `windows` are their places on the device.
    SavedChunk reserve(Arena& arena, const SavedSizes& sizes, const StreamWindows& windows) const;
    StreamWindows reserve_windows(Arena& arena, std::int64_t seq_length) const;
    /// Allocates what the head of the last chunk keeps, from F to BW or B.
    SavedHead reserve_head(Arena& arena, std::int64_t seq_length) const;
    /// Allocates what the head of the last chunk keeps from F to WH.
    DeferredHead reserve_deferred_head(Arena& arena, std::int64_t seq_length) const;

    /// F: fills `saved`, and what of it is on the host once later work runs. In the last chunk it
    /// also adds the loss to the step state and runs the head's backward, except for what it leaves
    /// to WH in `deferred`, unless that is empty.
    void forward(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                 const DeferredHead& deferred = {}) const;
    /// Forward without dropout that keeps nothing. The last chunk adds the loss.
    void evaluate(const Pass& pass, const Boundary& boundary) const;
    /// The same, but the last chunk fills `scores` instead of adding the loss.
    void score(const Pass& pass, const Boundary& boundary, const TargetScores& scores) const;
    /// The same, but the last chunk writes the logits [R, V] (V of this rank) of the tokens after
    /// `rows` of the batch, ascending; may be empty. With caches, one for each layer of the chunk,
    /// the batch follows the tokens in them.
    void logits(const Pass& pass, const Boundary& boundary, std::span<const std::int64_t> rows,
                const Tensor& logits, std::vector<KvCache>* caches = nullptr) const;
    /// True for the last chunk.
    bool has_head() const { return head_.has_value(); }
    /// BW, B or W. `final` may be empty.
    void backward(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                  BackwardPart part, const GradsFinal& final) const;
    /// WH, in the last chunk. `final` may be empty.
    void head_weights(const DeferredHead& deferred, const GradsFinal& final) const;

    std::vector<KvCache> reserve_caches(Arena& arena, std::int64_t sequences,
                                        std::int64_t capacity) const;

private:
    /// Runs a pass that saves nothing. With a head, calls use_head(norm) at its end: norm()
    /// computes n, which the head's loss reads.
    void run_to_head(const Pass& pass, const Boundary& boundary, std::vector<KvCache>* caches,
                     const auto& use_head) const;
    /// Starts the stream: r = the embeddings, or the previous chunk's output.
    void start_stream(const Pass& pass, const Tensor& input, const SavedNorm& embedded,
                      const Tensor& r) const;
    /// output = the sum that the next chunk's first norm reads.
    void finish_stream(const Pass& pass, const Stream& stream, const Tensor& output) const;
    /// Dropout of the branch that enters layer i of the chunk.
    Dropout input_dropout(std::size_t layer, const Pass& pass) const;
    /// Amaxes for one backward through the chunk, set to 0.
    AmaxPool grad_amax_pool() const;
    /// Starts the gradient of the stream: at the loss, or from the next chunk's gradient.
    void begin_gradient(const Pass& pass, const SavedChunk& saved, const Tensor& input,
                        StreamGrad& grad) const;
    void backward_inputs(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                         BackwardPart part, const GradsFinal& final) const;
    void backward_weights(const Pass& pass, const SavedChunk& saved, const GradsFinal& final) const;
    bool blocks_alike() const;
    /// Starts to bring back the stream of block `layer`; nothing if it does not wait in host memory
    /// or there is no such block.
    std::optional<std::int64_t> fetch_stream(const SavedChunk& saved, std::size_t layer) const;
    /// Starts to copy it there.
    std::optional<std::int64_t> store_stream(const SavedChunk& saved, std::size_t layer) const;
    void join(const std::optional<std::int64_t>& copies) const;
    /// Waits for the weights of block `layer`, or of the head if `layer` is the number of blocks.
    /// If weights are gathered, starts to gather those of what forward computes next.
    void wait_for_block(std::size_t layer) const;
    /// Waits for gathered weights of block `layer` in backward, and starts to gather the next ones.
    void need_again(std::size_t layer) const;
    /// Calls `compute`, which adds to the gradients of a unit: all that a microbatch adds to it.
    static void with_grads(const Pass& pass, std::size_t unit, const auto& compute);

    const ModelContext& context_;
    Parameters& parameters_;
    ChunkPart part_;
    ChunkRange flat_;
    std::optional<Embedding> embedding_;
    std::vector<Block> blocks_;
    std::optional<Head> head_;
};

}  // namespace gptrain
