// The arguments of the ops. Shape letters: B sequences of a microbatch, S local sequence length, T
// = B S tokens, H hidden size, N local heads, G local query groups, D head dim, F local
// feed-forward size, V local vocabulary, I inputs and O outputs of a linear layer, C rows of a
// chunk of logits.
//
// "Compute dtype" is fp32, bf16 or fp16, the same for all activations and weights of a call.
// Parameter gradients are fp32. Accumulation is in fp32 or better. `=` overwrites, `+=`
// accumulates. An empty tensor means "none". "rows" marks a tensor of rank 2 with contiguous rows
// and any row stride. All others are contiguous, unless strides are mentioned.
#pragma once

#include <cstdint>

#include "backend/dropout.h"
#include "tensor/shard.h"

namespace gptrain {

// ---- FP8 matrices
// --------------------------------------------------------------------------------

// An op whose result will be converted to FP8 can also compute the amax for its scale. `amax`
// (fp32 [1], or empty: not wanted) = max(amax, largest absolute value of the stored result). NaN
// is ignored.

/// An FP8 matrix [R, C] with one scale: element = stored x scale. GEMMs reduce over the contiguous
/// dim; a matrix reduced over both dims is stored both ways.
struct Fp8Matrix {
    Tensor rows;     ///< f8e4m3 or f8e5m2 [R, C] or empty
    Tensor columns;  ///< its transpose [C, R] or empty
    Tensor scale;    ///< fp32 [1]
    bool empty() const { return scale.empty(); }
};

/// scale = amax / largest number of the format, or 1 if amax is 0. stored = x (largest /
/// amax), rounded to nearest even; values beyond the largest saturate, NaN stays NaN.
struct ToFp8 {
    Tensor x;       ///< [R, C] rows, or [R C]; fp32 or compute dtype
    Tensor amax;    ///< fp32 [1]: largest absolute value of the whole matrix
    Fp8Matrix out;  ///< =; `columns` requires x of rank 2
};

// ---- linear layers ------------------------------------------------------------------------------

// With FP8 operands (x8, weight8: f8e4m3; dy8: f8e5m2) the tensors of the same name are empty.

/// y = x weight^T + bias; gelu = gelu(y) as in ActivationForward, computed from y as stored. Only a
/// backend that need not be deterministic may use y before rounding.
struct LinearForward {
    Tensor x;                ///< [T, I] rows
    Tensor weight;           ///< [O, I]
    Tensor bias;             ///< [O] or empty
    Tensor y;                ///< [T, O] rows, =; contiguous if gelu is given
    Tensor gelu = {};        ///< [T, O] or empty, =; not with FP8 operands
    Fp8Matrix x8 = {};       ///< its rows
    Fp8Matrix weight8 = {};  ///< its rows
};

/// dx = dy weight; with `gelu_input` u, dx = (dy weight) gelu'(u), rounded once
struct LinearInputGrad {
    Tensor dy;               ///< [T, O] rows
    Tensor weight;           ///< [O, I]
    Tensor gelu_input;       ///< [T, I] rows or empty
    Tensor dx;               ///< [T, I] rows, =
    Fp8Matrix dy8 = {};      ///< its rows
    Fp8Matrix weight8 = {};  ///< its columns
};

/// dweight += dy^T x; dbias += the sum of the rows of dy
struct LinearWeightGrad {
    Tensor x;            ///< [T, I] rows
    Tensor dy;           ///< [T, O] rows
    Tensor dweight;      ///< fp32 [O, I], +=
    Tensor dbias;        ///< fp32 [O] or empty, +=; not with FP8 operands
    Fp8Matrix x8 = {};   ///< its columns
    Fp8Matrix dy8 = {};  ///< its columns
};

// ---- norms and the residual stream --------------------------------------------------------------

/// layernorm: n = (r - mean) rstd weight + bias, rstd = 1 / sqrt(variance + eps);
/// rmsnorm: n = r rstd weight + bias, rstd = 1 / sqrt(mean of r^2 + eps)
struct Norm {
    bool rms = false;
    float eps = 1e-5f;
    Tensor weight;  ///< [H]
    Tensor bias;    ///< [H] or empty
};

/// r_out = round(r + dropout(y)), then n = norm(r_out), computed from r_out as stored.
/// Without y: n = norm(r), and r_out is empty. With an empty norm.weight only the sum is computed,
/// and its tensors may be fp32 even if the compute dtype differs.
/// A second call without y, on the stored r_out, recomputes n bit for bit.
struct ResidualNormForward {
    Tensor r;         ///< [T, H]
    Tensor y;         ///< [T, H] or empty
    Dropout dropout;  ///< of y
    Tensor r_out;     ///< [T, H], =; may be r itself
    Norm norm;
    Tensor n;                     ///< [T, H], =
    Tensor mean;                  ///< fp32 [T], =; empty for rmsnorm
    Tensor rstd;                  ///< fp32 [T], =
    std::int64_t seq_length = 0;  ///< S
    Tensor amax = {};             ///< of n
};

/// dr (+)= the gradient of norm with respect to r; dy = the gradient of dropout(y), from the new
/// dr.
struct ResidualNormBackward {
    Tensor dn;  ///< [T, H]
    Tensor r;   ///< [T, H], the norm's input as stored
    Norm norm;
    Tensor mean;  ///< fp32 [T]
    Tensor rstd;  ///< fp32 [T]
    Tensor dr;    ///< [T, H]; += if `accumulate`, else =
    bool accumulate = true;
    Dropout dropout;              ///< of y
    Tensor dy;                    ///< [T, H], =; empty if no dropout makes it differ from dr
    Tensor dweight;               ///< fp32 [H], +=
    Tensor dbias;                 ///< fp32 [H] or empty, +=
    std::int64_t seq_length = 0;  ///< S
    Tensor amax = {};             ///< of dy, or of dr if dy is empty
};

/// dy = dropout'(dr): the gradient of a branch that was summed without a norm.
struct DropoutBackward {
    Tensor dr;  ///< [T, H]
    Dropout dropout;
    Tensor dy;  ///< [T, H], =; may be dr itself
    std::int64_t seq_length = 0;
    Tensor amax = {};  ///< of dy
};

// ---- activation functions -----------------------------------------------------------------------

/// gelu, tanh form: y = 0.5 u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))).
/// swiglu: u holds [fc | gate], packed; y = silu(gate) fc.
struct ActivationForward {
    bool swiglu = false;
    Tensor u;          ///< [T, F], swiglu [T, 2 F]
    Tensor y;          ///< [T, F], =
    Tensor amax = {};  ///< of y
};

struct ActivationBackward {
    bool swiglu = false;
    Tensor u;          ///< as above
    Tensor dy;         ///< [T, F]
    Tensor du;         ///< as u, =; for gelu may be dy itself
    Tensor amax = {};  ///< of du
};

// ---- embeddings and positions -------------------------------------------------------------------

/// x[t] = weight[ids[t] - vocab_begin], or zeros if that row is not local
struct EmbeddingForward {
    Tensor ids;     ///< i32 [T]
    Tensor weight;  ///< [V, H]
    std::int64_t vocab_begin = 0;
    Tensor x;  ///< [T, H], =
};

/// dweight[ids[t] - vocab_begin] += dx[t] for local rows, in an order that depends on the ids only
struct EmbeddingBackward {
    Tensor ids;      ///< i32 [T]
    Tensor dx;       ///< [T, H]
    Tensor dweight;  ///< fp32 [V, H], +=
    std::int64_t vocab_begin = 0;
};

/// x = dropout(x + weight[positions]), in place
struct PositionForward {
    Tensor x;          ///< [T, H], in and out
    Tensor positions;  ///< i32 [T]
    Tensor weight;     ///< [P, H] or empty (rope)
    Dropout dropout;
    std::int64_t seq_length = 0;  ///< S
};

/// dx = dropout'(dx), in place; dweight[positions[t]] += dx[t], in an order that depends on
/// positions only
struct PositionBackward {
    Tensor dx;         ///< [T, H], in and out
    Tensor positions;  ///< i32 [T]
    Tensor dweight;    ///< fp32 [P, H] or empty, +=
    Dropout dropout;
    std::int64_t seq_length = 0;  ///< S
};

/// Rotary embedding of halves, in place: with m = position theta^(-2 i / D) for i < D / 2, computed
/// in double,
/// (x[i], x[i + D/2]) = (x[i] cos m - x[i + D/2] sin m, x[i + D/2] cos m + x[i] sin m).
/// `inverse` rotates by -m, for backward.
struct Rope {
    Tensor x;          ///< [B, S, heads, D] with any strides, in and out
    Tensor positions;  ///< i32 [B, S]
    double theta = 10000.0;
    bool inverse = false;
};

// ---- attention ----------------------------------------------------------------------------------

/// Causal softmax attention. Row i of q has position q_begin + i, row j of k and v has k_begin + j.
/// i sees j if position(j) <= position(i) and, with first_visible, position(j) >= first_visible[b,
/// i]. Head n uses group n G / N. The scale is 1 / sqrt(D). The full score matrix never exists. A
/// row that sees nothing gets o = 0 and lse = -infinity. Dropout is drawn at the positions above;
/// its `rows` are ignored.
struct AttentionForward {
    Tensor q;    ///< [B, Sq, N, D], strided, D contiguous
    Tensor k;    ///< [B, Sk, G, D], strided, D contiguous
    Tensor v;    ///< like k
    Tensor o;    ///< [B, Sq, N, D], strided, =
    Tensor lse;  ///< fp32 [B, N, Sq], =: log of the sum of exp(scale q k)
    std::int64_t q_begin = 0;
    std::int64_t k_begin = 0;
    Tensor first_visible;  ///< i32 [B, Sq] or empty
    Dropout dropout;       ///< of the probabilities, at the positions above
};

/// Gradients from the o and lse merged over all keys; ring attention calls it once for each part of
/// the keys.
struct AttentionBackward {
    AttentionForward forward;  ///< the arguments of the forward call, o and lse merged
    Tensor d_o;                ///< [B, Sq, N, D], strided
    Tensor dq;                 ///< like q
    Tensor dk;                 ///< like k
    Tensor dv;                 ///< like k
    bool accumulate = false;   ///< dq, dk, dv are fp32 and +=, else compute dtype and =
};

/// Merges attention over one set of keys into that over others, for ring attention: lse_sum =
/// log(exp(lse_sum) + exp(lse)), and with the old and new lse_sum, o_sum = o_sum exp(old - new) + o
/// exp(lse - new). A side with lse = -infinity saw no keys and changes nothing.
struct MergeAttention {
    Tensor o;                ///< [B, Sq, N, D], strided, D contiguous
    Tensor lse;              ///< fp32 [B, N, Sq]
    Tensor o_sum;            ///< fp32 [B, Sq, N, D], strided, D contiguous
    Tensor lse_sum;          ///< fp32 [B, N, Sq], strided, Sq contiguous
    bool accumulate = true;  ///< merge; else o_sum = o and lse_sum = lse
};

// ---- loss ---------------------------------------------------------------------------------------

/// Softmax cross-entropy of a chunk of logits, with the whole vocabulary on this rank:
/// step.loss_sum += sum of weight (log sum exp(logits) - logits[target]). With `gradient`, weight
/// (softmax - onehot(target)) loss_scale / token_weight_sum overwrites the logits. Tokens of weight
/// 0 add nothing, whatever their target.
struct CrossEntropy {
    Tensor logits;   ///< [C, V] rows, in and out
    Tensor targets;  ///< i32 [C], global ids
    Tensor weights;  ///< fp32 [C]
    StepRef step;
    bool gradient = true;
};

/// The same with the vocabulary split over ranks, as three ops: maximum, then all_reduce (max);
/// sums, then all_reduce (sum); gradient.
struct VocabParallelCrossEntropy {
    CrossEntropy loss;  ///< logits [C, V] hold the ids vocab_begin .. vocab_begin + V - 1
    std::int64_t vocab_begin = 0;
    Tensor maximum;  ///< fp32 [C]: largest logit of a row
    Tensor sums;     ///< fp32 [C, 2]: sum of exp(logit - maximum); the target's logit, 0 elsewhere
};

// ---- optimizer ----------------------------------------------------------------------------------

/// One piece of the parameters for AdamW; all tensors are flat and equally long.
struct AdamWPiece {
    Tensor main_param;  ///< fp32
    Tensor main_grad;   ///< fp32
    Tensor exp_avg;     ///< fp32
    Tensor exp_avg_sq;  ///< fp32
    Tensor weight;  ///< compute dtype, = rounded main_param, even if the step is skipped; empty if
                    ///< it is main_param itself
    bool decay = false;
};

/// With g = main_grad step.grad_factor, t = step.updates (including this one) and lr =
/// step.learning_rate:
///   exp_avg = b1 exp_avg + (1 - b1) g
///   exp_avg_sq = b2 exp_avg_sq + (1 - b2) g^2
///   main_param -= lr weight_decay main_param (`decay` only)
///   main_param -= lr (exp_avg / (1 - b1^t)) / (sqrt(exp_avg_sq / (1 - b2^t)) + eps)
/// With step.skip only `weight` is written.
struct AdamWConstants {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;
};

/// How `decide_step` clips gradients and moves the fp16 loss scale: it doubles after
/// `growth_interval` clean steps and halves on a skipped step, never below 1. With growth_interval
/// 0 it never changes.
struct StepPolicy {
    double clip_grad = 1.0;  ///< 0: no clipping
    std::int64_t growth_interval = 0;
};

}  // namespace gptrain
