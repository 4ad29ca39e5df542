// Ops of attention. Legend of the shapes: ops.h.
#pragma once

#include "backend/model_ops.h"
#include "base/alibi.h"

namespace gptrain {

/// Causal softmax attention. Row i of q has position q_begin + i, row j of k and v has k_begin + j.
/// i sees j if position(j) <= position(i) (with q behind all keys it sees all: bidirectional) and,
/// with first_visible, position(j) >= first_visible[b, i]. Head n uses group n G / N. A score is
/// s = q k / sqrt(D), with `softcap` c then c tanh(s / c), with `alibi` then less slope(n)
/// (position(i) - position(j)). The full score matrix never exists. A row that sees nothing gets o
/// = 0 and lse = -infinity. Dropout is drawn at the positions above; its `rows` are ignored.
struct AttentionForward {
    static constexpr std::string_view name = "attention_forward";
    Tensor q;    ///< [B, Sq, N, D], strided, D contiguous
    Tensor k;    ///< [B, Sk, G, D], strided, D contiguous
    Tensor v;    ///< like k
    Tensor o;    ///< [B, Sq, N, D], strided, =
    Tensor lse;  ///< fp32 [B, N, Sq], =: log of the sum of exp(score)
    std::int64_t q_begin = 0;
    std::int64_t k_begin = 0;
    Tensor first_visible;  ///< i32 [B, Sq] or empty; never decreases along a sequence
    /// The most keys that a row sees by first_visible, for those who count the work; 0: any number.
    std::int64_t window = 0;
    Dropout dropout;    ///< of the probabilities, at the positions above
    float softcap = 0;  ///< 0: none
    Alibi alibi = {};
    Tensor amax = {};   ///< of o, which then is rows_of_heads; backward ignores it
    Fp8Matrix o8 = {};  ///< the same rows by ToFp8Rows, =, or empty; only with D = fp8_block
    /// Calls f(rows) for each tensor of the amax.
    void each_of_amax(const auto& f) const {
        if (!amax.empty()) f(rows_of_heads(o));
    }
    /// True if scores are more than scaled products.
    bool changes_scores() const { return softcap > 0 || alibi.on(); }
    void tensors(const auto& list) const {
        list.reads(q, k, v, first_visible).writes(o, lse, o8.rowwise, o8.scale).updates(amax);
    }
};

/// Gradients from the o and lse merged over all keys; ring attention calls it once for each part of
/// the keys.
struct AttentionBackward {
    static constexpr std::string_view name = "attention_backward";
    AttentionForward forward;  ///< the arguments of the forward call, o and lse merged
    Tensor d_o;                ///< [B, Sq, N, D], strided
    Tensor dq;                 ///< like q
    Tensor dk;                 ///< like k
    Tensor dv;                 ///< like k
    bool accumulate = false;   ///< dq, dk, dv are fp32 and +=, else compute dtype and =
    /// Of dv and, unless `amax_of_dv`, of dq and dk; not with `accumulate`. These then are
    /// rows_of_heads.
    Tensor amax = {};
    bool amax_of_dv = false;
    void each_of_amax(const auto& f) const {
        if (amax.empty()) return;
        f(rows_of_heads(dv));
        if (amax_of_dv) return;
        f(rows_of_heads(dq));
        f(rows_of_heads(dk));
    }
    void tensors(const auto& list) const {
        list.reads(forward.q, forward.k, forward.v, forward.o, forward.lse, forward.first_visible,
                   d_o)
            .updates(amax);
        accumulate ? list.updates(dq, dk, dv) : list.writes(dq, dk, dv);
    }
};

/// Merges attention over one set of keys into that over others, for ring attention: lse_sum =
/// log(exp(lse_sum) + exp(lse)), and with the old and new lse_sum, o_sum = o_sum exp(old - new) + o
/// exp(lse - new). A side with lse = -infinity saw no keys and changes nothing.
struct MergeAttention {
    static constexpr std::string_view name = "merge_attention";
    Tensor o;                ///< [B, Sq, N, D], strided, D contiguous
    Tensor lse;              ///< fp32 [B, N, Sq]
    Tensor o_sum;            ///< fp32 [B, Sq, N, D], strided, D contiguous
    Tensor lse_sum;          ///< fp32 [B, N, Sq], strided, Sq contiguous
    bool accumulate = true;  ///< merge; else o_sum = o and lse_sum = lse
    void tensors(const auto& list) const {
        list.reads(o, lse);
        accumulate ? list.updates(o_sum, lse_sum) : list.writes(o_sum, lse_sum);
    }
};

/// Attention sinks (gpt-oss): each head has one more score, without a value, in the softmax of
/// every row: lse = log(exp(lse) + exp(sink)) and, with the old and new lse, o = o exp(old - new),
/// in place. A row that saw nothing keeps o = 0. AttentionBackward with these o and lse gives the
/// gradients of q, k and v.
struct SinkForward {
    static constexpr std::string_view name = "sink_forward";
    Tensor sinks;  ///< [N], compute dtype
    Tensor o;      ///< [B, Sq, N, D], strided, D contiguous; compute dtype or fp32, in and out
    Tensor lse;    ///< fp32 [B, N, Sq], in and out
    void tensors(const auto& list) const { list.reads(sinks).updates(o, lse); }
};

/// dsinks[n] -= the sum over rows of exp(sinks[n] - lse) (d_o o), with o and lse of SinkForward, in
/// an order that depends on sizes only.
struct SinkBackward {
    static constexpr std::string_view name = "sink_backward";
    Tensor sinks;   ///< [N], compute dtype
    Tensor o;       ///< [B, Sq, N, D], strided, D contiguous; compute dtype
    Tensor lse;     ///< fp32 [B, N, Sq]
    Tensor d_o;     ///< like o
    Tensor dsinks;  ///< fp32 [N], -=
    void tensors(const auto& list) const { list.reads(sinks, o, lse, d_o).updates(dsinks); }
};

}  // namespace gptrain
