// The attention half of a block.
#pragma once

#include "model/context_attention.h"
#include "model/linear.h"
#include "model/norm.h"

namespace gptrain {

/// What is kept from forward to backward; tensors that are empty are not kept but rebuilt.
struct SavedAttention {
    SavedNorm norm;
    Measured n;  ///< [T, H]: norm output
    Tensor qkv;  ///< [T, (N + 2 G) D]: queries and keys after their rotation, values
    Measured o;  ///< [T, N D]
    Tensor lse;  ///< fp32 [B, N, S]
};

/// Gradients that a deferred W still needs.
struct DeferredAttention {
    Tensor dy;    ///< [T, H]: of the output
    Tensor dqkv;  ///< as qkv
};

/// Keys and values of the tokens so far, for generation.
struct KvCache {
    Tensor k;  ///< [B, capacity, G, D]
    Tensor v;
    std::int64_t length = 0;  ///< tokens in it
};

class Attention {
public:
    Attention(const ModelContext& context, const Parameters& parameters, std::int64_t layer);

    /// Whether its products with weights are in 8 bits.
    bool float8() const { return qkv_.float8(); }

    /// Memory in `arena` for what `recompute` keeps of a batch [B, S].
    SavedAttention reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                           std::int64_t seq_length) const;
    DeferredAttention reserve_deferred(Arena& arena, std::int64_t tokens) const;
    KvCache reserve_cache(Arena& arena, std::int64_t sequences, std::int64_t capacity) const;
    /// Gives what was not kept memory in the workspace; a stream that was not kept lies in
    /// `stream`.
    SavedAttention complete(const SavedAttention& kept, const Tensor& stream,
                            const Batch& batch) const;

    /// From the stream to the attention's output: all of `saved`, which is complete. With a cache
    /// the tokens of the batch follow those in it and are added to it.
    void forward_inner(Stream& stream, const SavedAttention& saved, const Pass& pass,
                       KvCache* cache = nullptr) const;
    /// y = the branch's output, which joins the stream.
    void forward_outer(Stream& stream, const SavedAttention& saved, const Tensor& y,
                       const Pass& pass) const;

    /// From grad.dy to the gradient of the stream before this half. `branch`: the dropout of the
    /// branch that the norm added. `deferred` (not empty) keeps what W needs.
    void backward(const SavedAttention& kept, StreamGrad& grad, const Dropout& branch,
                  const Pass& pass, BackwardPart part, const DeferredAttention& deferred) const;

private:
    struct Heads {
        Tensor q;  ///< [B, S, N, D]
        Tensor k;  ///< [B, S, G, D]
        Tensor v;
    };
    /// The parts of a packed [T, (N + 2 G) D] tensor.
    Heads split(const Tensor& packed, const Batch& batch) const;
    Tensor output_heads(const Tensor& o, const Batch& batch) const;
    void rotate(const Tensor& packed, const Batch& batch, bool inverse) const;
    AttentionForward core(const Heads& heads, const SavedAttention& saved, const Pass& pass) const;
    /// The same where the ranks of cp share the sequence.
    bool shares_sequence() const { return context_.mesh.cp().size() > 1; }
    ContextRanks context_ranks() const {
        return {context_.backend, context_.mesh.cp(), context_.workspace()};
    }
    ContextForward shared_core(const SavedAttention& saved, const Pass& pass) const;
    void inner_backward(const SavedAttention& saved, const Tensor& d_o, const Tensor& dqkv,
                        const Pass& pass) const;

    const ModelContext& context_;
    std::int64_t layer_;
    NormLayer norm_;
    Linear qkv_;
    Linear proj_;
};

}  // namespace gptrain
