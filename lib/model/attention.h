// The attention half of a block, for T = B S tokens, N heads and G query groups on this rank:
//
//   n       = norm(r)                              [T, H]
//   q, k, v = n Wqkv^T + bqkv                      [B, S, N, D] and twice [B, S, G, D]
//   q, k    = rope(q), rope(k)                     with rotary positions
//   o       = dropout(softmax(q k^T / sqrt(D))) v  [B, S, N, D], causal
//   y       = o Wproj^T + bproj                    [T, H]
//
// The next norm adds y to the residual stream: r' = r + dropout(y).
#pragma once

#include "model/context_attention.h"
#include "model/linear.h"
#include "model/norm.h"

namespace gptrain {

/// What forward keeps for backward. Backward rebuilds the tensors that are empty.
struct SavedAttention {
    SavedNorm norm;
    WithAmax n;  ///< [T, H]: norm output
    Tensor qkv;  ///< [T, (N + 2 G) D]: rotated q and k, then v
    WithAmax o;  ///< [T, N D]
    Tensor lse;  ///< fp32 [B, N, S]
};

/// Gradients kept for a deferred W.
struct DeferredAttention {
    Tensor dy;    ///< [T, H]: gradient of y
    Tensor dqkv;  ///< gradient of qkv, same shape
};

/// Keys and values of the tokens seen so far, for generation.
struct KvCache {
    Tensor k;  ///< [B, capacity, G, D]
    Tensor v;
    std::int64_t length = 0;  ///< tokens stored
};

class Attention {
public:
    Attention(const ModelContext& context, const Parameters& parameters, std::int64_t layer);

    /// True if its GEMMs with weights are FP8.
    bool fp8() const { return qkv_.fp8(); }

    /// Allocates what `recompute` keeps of a batch [B, S].
    SavedAttention reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                           std::int64_t seq_length) const;
    DeferredAttention reserve_deferred(Arena& arena, std::int64_t tokens) const;
    KvCache reserve_cache(Arena& arena, std::int64_t sequences, std::int64_t capacity) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedAttention with_workspace(const SavedAttention& kept, const Tensor& stream,
                                  const Batch& batch) const;

    /// Computes n, q, k, v and o from the stream; `saved` must be complete. With a cache, the
    /// tokens of the batch follow those in it and are appended.
    void forward_attention(Stream& stream, const SavedAttention& saved, const Pass& pass,
                           KvCache* cache = nullptr) const;
    /// Computes y, the branch that joins the stream.
    void forward_projection(Stream& stream, const SavedAttention& saved, const Tensor& y,
                            const Pass& pass) const;

    /// Turns grad.dy into the gradient of the stream before this half. `branch` is the dropout of
    /// the branch that the norm added to the stream. `deferred`, unless empty, keeps what W needs.
    void backward(const SavedAttention& kept, StreamGrad& grad, const Dropout& branch,
                  const Pass& pass, BackwardPart part, const DeferredAttention& deferred) const;

private:
    struct Heads {
        Tensor q;  ///< [B, S, N, D]
        Tensor k;  ///< [B, S, G, D]
        Tensor v;
    };
    /// Views of a packed [T, (N + 2 G) D] tensor.
    Heads split(const Tensor& packed, const Batch& batch) const;
    Tensor output_heads(const Tensor& o, const Batch& batch) const;
    void rotate(const Tensor& packed, const Batch& batch, bool inverse) const;
    AttentionForward local_args(const Heads& heads, const SavedAttention& saved,
                                const Pass& pass) const;
    /// Context parallelism: the ranks of cp share the sequence, and context_args replaces
    /// local_args.
    bool shares_sequence() const { return context_.mesh.cp().size() > 1; }
    ContextRanks context_ranks() const {
        return {context_.backend, context_.mesh.cp(), context_.workspace()};
    }
    ContextForward context_args(const SavedAttention& saved, const Pass& pass) const;
    void attention_backward(const SavedAttention& saved, const Tensor& d_o, const Tensor& dqkv,
                            const Pass& pass) const;

    const ModelContext& context_;
    std::int64_t layer_;
    NormLayer norm_;
    Linear qkv_;
    Linear proj_;
};

}  // namespace gptrain
