// A transformer block: attention, then the feed-forward network, each a branch off the residual
// stream behind a norm (pre-norm, as in GPT-2).
#pragma once

#include "model/attention.h"
#include "model/mlp.h"

namespace gptrain {

/// With full recomputation only attention.norm.r is kept.
struct SavedBlock {
    SavedAttention attention;
    SavedMlp mlp;
    Tensor maxima;  ///< fp32 [4]: all that the halves have, where they compute in 8 bits
};

struct DeferredBlock {
    DeferredAttention attention;
    DeferredMlp mlp;
};

/// The tensors of a block that B alone reads, for the gradients of one whose B comes later. Only
/// where the outputs of norms and of the activation function are kept: W rebuilds them from these.
DeferredBlock used_up_by_inputs(const SavedBlock& saved);
/// to = from
void copy(Backend& backend, const DeferredBlock& to, const DeferredBlock& from);

class Block {
public:
    Block(const ModelContext& context, const Parameters& parameters, std::int64_t layer);

    SavedBlock reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                       std::int64_t seq_length) const;
    DeferredBlock reserve_deferred(Arena& arena, std::int64_t tokens) const;
    KvCache reserve_cache(Arena& arena, std::int64_t sequences, std::int64_t capacity) const {
        return attention_.reserve_cache(arena, sequences, capacity);
    }

    /// Moves the stream through the block; `kept` is filled, what it lacks lives in the workspace.
    void forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                 const Pass& pass, KvCache* cache = nullptr) const;

    /// Moves the gradient back through the block. `branch`: the dropout of the branch that enters
    /// the block with the stream.
    void backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch, const Pass& pass,
                  BackwardPart part, const DeferredBlock& deferred) const;

    /// Whether its products with weights are in 8 bits.
    bool float8() const { return attention_.float8(); }
    /// Maxima that `backward` takes from the gradient.
    static constexpr std::int64_t grad_maxima = 3;

    /// The dropout of the branch that leaves the block.
    Dropout outgoing(const Pass& pass) const {
        return pass.dropout(context_, DropoutSite::mlp_output, layer_);
    }

private:
    /// Gives `saved` memory for its maxima where the block computes in 8 bits.
    void reserve_maxima(SavedBlock& saved, Arena& arena) const;
    /// `kept`, its maxima set to 0; what it lacks of them lives in the workspace.
    SavedBlock with_cleared_maxima(SavedBlock kept) const;
    /// All activations of the block again from the stream that enters it, the same bits.
    SavedBlock recomputed(const SavedBlock& kept, const Pass& pass) const;

    const ModelContext& context_;
    std::int64_t layer_;
    Attention attention_;
    Mlp mlp_;
};

}  // namespace gptrain
