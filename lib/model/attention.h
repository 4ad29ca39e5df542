// The attention half of a block, for T = B S tokens, N heads and G query groups on this rank:
//
//   u    = [q | k | v]                            [T, (N + 2 G) D]
//   q, k = norm(q), norm(k)                       with qk_norm, each head or all as one row
//   q, k = rope(q), rope(k)                       with rotary positions, the first dims of a head
//   a    = dropout(softmax(score(q k^T))) v       [T, N D], causal or bidirectional
//
// between the norm of normed_branch.h and the projection of two_linears.h. A score has the scale 1
// / sqrt(D) and, if the model has them, a soft cap and ALiBi (AttentionForward); sinks take part in
// the softmax (SinkForward).
#pragma once

#include "model/context_attention.h"
#include "model/packed_qkv.h"
#include "model/two_linears.h"

namespace gptrain {

/// The tensors that forward keeps for backward.
struct SavedAttention {
    SavedBranch branch;
    SavedLinears linears;
    Tensor lse;  ///< fp32 [B, N, S]
    /// With qk_norm, [T, (N + 2 G) D] like u, with q and k normalised and rotated. Otherwise empty,
    /// and q and k of u are rotated in place.
    Tensor normalised;
    /// fp32 [2, T], with qk_norm all: the sums of squares of q and of k over all heads of the
    /// model.
    Tensor squares;

    /// q, k and v as the scores read them.
    const Tensor& qkv() const { return normalised.empty() ? linears.u : normalised; }
};

/// Keys and values of the tokens seen so far, for generation.
struct KvCache {
    Tensor k;                 ///< [B, capacity, G, D]; on the host head after head in memory
    Tensor v;                 ///< like k
    std::int64_t length = 0;  ///< tokens stored; with Pass::texts each text has its own length
};

class Attention {
public:
    Attention(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    const NormedBranch& branch() const { return branch_; }
    /// True if its GEMMs are FP8 with one scale for each matrix.
    bool one_scale() const { return linears_.one_scale(); }
    /// True if backward reads rows8 of grad.dy.
    bool takes_dy8() const { return !branch_.has_post_norm() && linears_.proj().takes_dy8(); }

    /// Allocates what `recompute` keeps of a batch [B, S].
    SavedAttention reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                           std::int64_t seq_length) const;
    DeferredHalf reserve_deferred(Arena& arena, std::int64_t tokens) const {
        return linears_.reserve_deferred(arena, tokens);
    }
    KvCache reserve_cache(Arena& arena, std::int64_t sequences, std::int64_t capacity) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept. `for_backward`: backward reads the result, and not only forward.
    SavedAttention with_workspace(const SavedAttention& kept, const Tensor& stream,
                                  const Batch& batch, bool for_backward) const;

    /// Computes n, u and a from the stream; `saved` must be complete. With a cache, the tokens of
    /// the batch follow those in it, or those of their text (Pass::texts), and are appended.
    void forward(Stream& stream, const SavedAttention& saved, const Pass& pass,
                 KvCache* cache = nullptr) const;
    /// Computes y from a. It joins the stream.
    void project(Stream& stream, const SavedAttention& saved, const Tensor& y,
                 const Pass& pass) const;

    /// Turns grad.dy into the gradient of the stream before this half. `branch_dropout` is the
    /// dropout of the branch that the norm added to the stream. `deferred`, unless empty, keeps
    /// what W needs.
    void backward(const SavedAttention& kept, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const;

private:
    /// A packed [T, (N + 2 G) D] tensor as [B, S, N + 2 G, D].
    Tensor heads_of(const Tensor& packed, const Batch& batch) const;
    /// q, k and v in it.
    PackedQkv split(const Tensor& packed, const Batch& batch) const {
        return split_qkv(heads_of(packed, batch), context_.shape.heads, context_.shape.groups);
    }
    /// The same as q [T, N, D], k and v [T, G, D].
    PackedQkv split_rows(const Tensor& packed) const;
    Tensor output_heads(const Tensor& o, const Batch& batch) const;
    bool normalises() const { return !q_norm_.weight.empty(); }
    bool normalises_rows() const { return context_.shape.qk_norm == QkNorm::all; }
    /// saved.squares, from u.
    void sum_squares(const SavedAttention& saved) const;
    /// saved.normalised = u with q and k normalised and rotated; without qk_norm, rotates them in
    /// u.
    void normalise_and_rotate(const SavedAttention& saved, const Batch& batch) const;
    /// The arguments of the norm of all heads of q, or of k, as one row.
    RowNormForward row_norm(const Tensor& x, const GroupTensors& norm, const Tensor& squares,
                            const Tensor& y) const;
    void normalise(const SavedAttention& saved) const;
    /// Turns the gradients of normalised q and k into those of u, in place.
    void norm_backward(const SavedAttention& saved, const Tensor& dqkv) const;
    void row_norm_backward(const SavedAttention& saved, const Tensor& dqkv) const;
    /// Computes `normalised` again in the workspace if it was not kept.
    SavedAttention with_normalised(SavedAttention kept, const Batch& batch) const;
    /// `amax` as in Rope.
    void rotate(const Tensor& packed, const Batch& batch, bool inverse,
                const Tensor& amax = {}) const;
    /// Turns the gradient of qkv() into that of u, in place.
    void inputs_backward(const SavedAttention& saved, const LinearOperand& dqkv,
                         const Batch& batch) const;
    /// The first key that each token sees in this layer, i32 [B, S], or empty.
    const Tensor& first_visible(const Batch& batch) const {
        return has_window(batch) ? batch.first_in_window : batch.first_visible;
    }
    bool has_window(const Batch& batch) const {
        return !batch.first_in_window.empty() && context_.shape.has_window(layer_);
    }
    /// The most keys that a token sees; 0: any number.
    std::int64_t window(const Batch& batch) const {
        return has_window(batch) ? *context_.shape.sliding_window : 0;
    }
    /// The position of the first token among queries. In a bidirectional model queries are placed
    /// after all keys of the sequence, so that they see all of them.
    std::int64_t first_query(const Batch& batch) const {
        return context_.shape.bidirectional ? batch.seq_length() * context_.mesh.cp().size() : 0;
    }
    float softcap() const {
        return static_cast<float>(context_.shape.attention_softcap.value_or(0));
    }
    /// For this rank's heads.
    Alibi alibi() const {
        if (context_.shape.position_embedding != PositionEmbedding::alibi) return {};
        const Communicator& tp = context_.mesh.tp();
        return {.heads = context_.shape.heads * tp.size(),
                .head_begin = context_.shape.heads * tp.rank()};
    }
    AttentionForward local_args(const PackedQkv& heads, const SavedAttention& saved,
                                const Pass& pass) const;
    /// Attends to what this rank has: the batch, or the cache and the batch.
    void local_attention_forward(const SavedAttention& saved, const Pass& pass,
                                 KvCache* cache) const;
    /// Runs the op, and adds the sinks.
    void attend(const AttentionForward& args) const;
    /// Appends k and v to the cache and runs the op over all keys in it.
    void attend(AttentionForward args, KvCache& cache) const;
    /// The same for each text by itself, within its part of the cache.
    void attend(const AttentionForward& args, const KvCache& cache,
                std::span<const TextRows> texts) const;
    /// Context parallelism: the ranks of cp share the sequence, and context_args replaces
    /// local_args.
    bool shares_sequence() const { return context_.mesh.cp().size() > 1; }
    /// True if o is what one op writes, which then finds its amax, too.
    bool one_op_attends() const { return !shares_sequence() && !sinks_.present(); }
    /// True if that op can write its rows in FP8, too.
    bool writes_rows8() const { return one_op_attends() && context_.shape.head_dim == fp8_block; }
    /// True if the ops that write du last find its amax: attention for dv, and for dq and dk unless
    /// Rope turns all of them back.
    bool ops_find_gradient_amax() const {
        const ModelShape& shape = context_.shape;
        const bool whole = !shape.rotates(layer_) || shape.rotary_dims() == shape.head_dim;
        return one_scale() && whole && !normalises() && !shares_sequence();
    }
    ContextRanks context_ranks() const {
        return {context_.backend, context_.mesh.cp(), context_.workspace(),
                context_.exchange_pieces};
    }
    ContextForward context_args(const SavedAttention& saved, const Pass& pass) const;
    void attention_backward(const SavedAttention& saved, const Tensor& d_o,
                            const LinearOperand& dqkv, const Pass& pass) const;

    const ModelContext& context_;
    std::int64_t layer_;
    NormedBranch branch_;
    TwoLinears linears_;
    GroupTensors q_norm_;  ///< empty without qk_norm
    GroupTensors k_norm_;
    GroupTensors sinks_;  ///< [N]; empty without sinks
};

}  // namespace gptrain
