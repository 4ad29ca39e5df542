// Ops of the model: linear layers, activation functions, embeddings, loss. Legend of the shapes:
// ops.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backend/dropout.h"
#include "backend/value_ops.h"
#include "base/activation.h"
#include "base/rope.h"

namespace gptrain {

// ---- linear layers ------------------------------------------------------------------------------

// With FP8 operands (x8, weight8: f8e4m3; dy8: f8e5m2, in blocks f8e4m3) the tensors of the same
// name are empty. In blocks, x8 and dy8 have scales for 1 x 128 elements, weight8 for 128 x 128; a
// GPU scales the sums of 128 products in fp32, the CPU the elements. A weight gradient has no
// operands in blocks.

/// y (+)= x weight^T + bias; gelu = gelu(y), or swiglu = swiglu(y), as in ActivationForward,
/// computed from y as stored. Only a backend that need not be deterministic may use y before
/// rounding, for gelu.
struct LinearForward {
    static constexpr std::string_view name = "linear_forward";
    Tensor x;       ///< [T, I] rows
    Tensor weight;  ///< [O, I]
    Tensor bias;    ///< [O] or empty
    /// [T, O] rows; += if `accumulate`, rounded once, else =; contiguous with gelu or swiglu. Of
    /// the compute dtype, or fp32 without gelu, swiglu, FP8 and `accumulate`.
    Tensor y;
    Tensor gelu = {};         ///< [T, O] or empty, =; not with FP8 operands
    Fp8Matrix x8 = {};        ///< its rows
    Fp8Matrix weight8 = {};   ///< its rows
    bool accumulate = false;  ///< only without bias, gelu and swiglu
    Tensor swiglu = {};       ///< [T, O / 2] or empty, =; not with FP8 operands
    void tensors(const auto& list) const {
        list.reads(x, weight, bias, x8.rowwise, x8.scale, weight8.rowwise, weight8.scale)
            .writes(gelu, swiglu);
        accumulate ? list.updates(y) : list.writes(y);
    }
};

/// The largest number of rows for which reading the weight takes all of a linear layer's time.
constexpr std::int64_t few_rows = 8;

/// y = x weight^T + bias, rounded once, for at most few_rows rows. Reads the weight once.
struct Int8LinearForward {
    static constexpr std::string_view name = "int8_linear_forward";
    Tensor x;           ///< [T, I] rows
    Int8Matrix weight;  ///< [O, I]
    Tensor bias;        ///< [O] or empty
    Tensor y;           ///< [T, O] rows, =
    void tensors(const auto& list) const {
        list.reads(x, weight.values, weight.scales, bias).writes(y);
    }
};

/// dx (+)= dy weight; with `gelu_input` u, dx = (dy weight) gelu'(u), rounded once. With
/// `swiglu_input` u, du is the gradient of u as in ActivationBackward, from dy weight as rounded to
/// dx, which may hold anything afterwards.
struct LinearInputGrad {
    static constexpr std::string_view name = "linear_input_grad";
    Tensor dy;                 ///< [T, O] rows
    Tensor weight;             ///< [O, I]
    Tensor gelu_input;         ///< [T, I] rows or empty
    Tensor dx;                 ///< [T, I] rows; += if `accumulate`, rounded once, else =
    Fp8Matrix dy8 = {};        ///< its rows
    Fp8Matrix weight8 = {};    ///< its columns
    bool accumulate = false;   ///< only without gelu_input and swiglu_input
    Tensor swiglu_input = {};  ///< [T, 2 I] or empty, contiguous; not with FP8 operands
    Tensor du = {};            ///< [T, 2 I] with swiglu_input, =, contiguous, as dx then
    void tensors(const auto& list) const {
        list.reads(dy, weight, gelu_input, swiglu_input, dy8.rowwise, dy8.scale, weight8.columnwise,
                   weight8.in_blocks() ? weight8.column_scale : weight8.scale)
            .writes(du);
        accumulate ? list.updates(dx) : list.writes(dx);
    }
};

/// dweight (+)= dy^T x; dbias += the sum of the rows of dy
struct LinearWeightGrad {
    static constexpr std::string_view name = "linear_weight_grad";
    Tensor x;            ///< [T, I] rows
    Tensor dy;           ///< [T, O] rows
    Tensor dweight;      ///< fp32 [O, I]; += if `accumulate`, else =
    Tensor dbias;        ///< fp32 [O] or empty, +=; not with FP8 operands
    Fp8Matrix x8 = {};   ///< its columns
    Fp8Matrix dy8 = {};  ///< its columns
    bool accumulate = true;
    void tensors(const auto& list) const {
        list.reads(x, dy, x8.columnwise, x8.of_columns(), dy8.columnwise, dy8.of_columns());
        list.updates(dbias);
        accumulate ? list.updates(dweight) : list.writes(dweight);
    }
};

/// dbias += the sum of the rows of dy.
struct BiasGrad {
    static constexpr std::string_view name = "bias_grad";
    Tensor dy;     ///< [T, O] rows
    Tensor dbias;  ///< fp32 [O], +=
    void tensors(const auto& list) const { list.reads(dy).updates(dbias); }
};

/// y += bias for every row of y: a row-parallel layer's bias, after its reduction.
struct AddBias {
    static constexpr std::string_view name = "add_bias";
    Tensor y;     ///< [T, H], compute dtype or fp32, in and out
    Tensor bias;  ///< [H], compute dtype
    void tensors(const auto& list) const { list.reads(bias).updates(y); }
};

// ---- activation functions -----------------------------------------------------------------------

/// gelu, tanh form: y = 0.5 u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))).
/// gelu_erf: y = 0.5 u (1 + erf(u / sqrt(2))).
/// swiglu: u holds [fc | gate], packed; y = silu(gate) fc.
/// clamped_swiglu: likewise, with limit = 7 and g = min(gate, limit):
///   y = (clamp(fc, -limit, limit) + 1) g sigmoid(1.702 g). The slope of a clamped element is 0, at
///   the limits themselves it is that of the inside.
/// geglu: u holds [fc | gate], packed; y = gelu(gate) fc.
/// relu: y = max(u, 0), with the slope 0 at 0. relu2: y = max(u, 0)^2.
struct ActivationForward {
    static constexpr std::string_view name = "activation_forward";
    Activation activation = Activation::gelu;
    Tensor u;           ///< [T, F], with a gate [T, 2 F]
    Tensor y;           ///< [T, F], =; may be empty with y8
    Tensor amax = {};   ///< of y; not with y8
    Fp8Matrix y8 = {};  ///< y by ToFp8Rows, =, or empty
    std::int64_t width() const { return y.empty() ? y8.rowwise.size(1) : y.size(1); }  ///< F
    void tensors(const auto& list) const {
        list.reads(u).writes(y, y8.rowwise, y8.scale).updates(amax);
    }
};

struct ActivationBackward {
    static constexpr std::string_view name = "activation_backward";
    Activation activation = Activation::gelu;
    Tensor u;            ///< as above
    Tensor dy;           ///< [T, F]
    Tensor du;           ///< as u, =; without a gate may be dy itself
    Tensor amax = {};    ///< of du; not with du8
    Fp8Matrix du8 = {};  ///< du by ToFp8Rows, =, or empty
    void tensors(const auto& list) const {
        list.reads(u, dy).writes(du, du8.rowwise, du8.scale).updates(amax);
    }
};

// ---- embeddings and positions -------------------------------------------------------------------

/// As many rows of a table as the ids can name; empty if the table is.
inline Tensor named_rows(const Tensor& table, const Tensor& ids) {
    return table.empty() ? table : table.slice(0, 0, std::min(table.size(0), ids.elements()));
}

/// x[t] = scale weight[ids[t] - vocab_begin], rounded once, or zeros if that row is not local
struct EmbeddingForward {
    static constexpr std::string_view name = "embedding_forward";
    Tensor ids;     ///< i32 [T]
    Tensor weight;  ///< [V, H]
    std::int64_t vocab_begin = 0;
    Tensor x;  ///< [T, H], =
    float scale = 1;
    void tensors(const auto& list) const { list.reads(ids, named_rows(weight, ids)).writes(x); }
};

/// dweight[ids[t] - vocab_begin] += scale dx[t] for local rows, in an order that depends on the ids
/// only
struct EmbeddingBackward {
    static constexpr std::string_view name = "embedding_backward";
    Tensor ids;      ///< i32 [T]
    Tensor dx;       ///< [T, H]
    Tensor dweight;  ///< fp32 [V, H], +=
    std::int64_t vocab_begin = 0;
    float scale = 1;
    void tensors(const auto& list) const { list.reads(ids, dx).updates(named_rows(dweight, ids)); }
};

/// x = dropout(x + weight[positions]), in place
struct PositionForward {
    static constexpr std::string_view name = "position_forward";
    Tensor x;          ///< [T, H], in and out
    Tensor positions;  ///< i32 [T]
    Tensor weight;     ///< [P, H] or empty (rope)
    Dropout dropout;
    std::int64_t seq_length = 0;  ///< S
    void tensors(const auto& list) const {
        list.reads(positions, named_rows(weight, positions)).updates(x);
    }
};

/// dx = dropout'(dx), in place; dweight[positions[t]] += dx[t], in an order that depends on
/// positions only
struct PositionBackward {
    static constexpr std::string_view name = "position_backward";
    Tensor dx;         ///< [T, H], in and out
    Tensor positions;  ///< i32 [T]
    Tensor dweight;    ///< fp32 [P, H] or empty, +=
    Dropout dropout;
    std::int64_t seq_length = 0;  ///< S
    void tensors(const auto& list) const {
        list.reads(positions).updates(dx, named_rows(dweight, positions));
    }
};

/// Heads [B, S, heads, D] as rows [B S, heads D], which they must be.
inline Tensor rows_of_heads(const Tensor& x) {
    return x.view({x.size(0) * x.size(1), x.size(2) * x.size(3)});
}

/// Rotary embedding of halves, in place: with m = position x frequency(i) for i < D / 2
/// (RopeAngles, computed in double) and a = amplitude, (x[i], x[i + D/2]) = a (x[i] cos m - x[i +
/// D/2] sin m, x[i + D/2] cos m + x[i] sin m). `inverse` rotates by -m, for backward.
struct Rope {
    static constexpr std::string_view name = "rope";
    /// [B, S, heads, D] with any strides, in and out. D counts rotated features: those of heads
    /// that rotate in part are a slice.
    Tensor x;
    Tensor positions;  ///< i32 [B, S]
    double theta = 10000.0;
    std::optional<RopeScaling> scaling = {};
    bool inverse = false;
    Tensor amax = {};  ///< of x, rotated; needs whole heads
    RopeAngles angles() const { return {theta, x.size(3), scaling}; }
    void tensors(const auto& list) const { list.reads(positions).updates(x, amax); }
};

// ---- loss ---------------------------------------------------------------------------------------

/// x = cap tanh(x / cap), in place: a soft cap of logits.
struct SoftCap {
    static constexpr std::string_view name = "soft_cap";
    Tensor x;  ///< [C, V] rows, compute dtype, in and out
    float cap = 1;
    void tensors(const auto& list) const { list.updates(x); }
};

/// Where an op adds the loss of its rows by the source of their sequence.
struct LossBySource {
    Tensor sums;                 ///< fp64 [sources, 2], += weight x loss and weight of each row
    Tensor sources;              ///< i32 [B]: the source of each sequence
    std::int64_t first_row = 0;  ///< of the op's rows among the B S rows of the batch
    std::int64_t length = 1;     ///< S
};

/// Where an op adds the loss of its rows.
struct LossSink {
    Tensor sum;         ///< fp64 [1], += the sum of weight x loss
    double factor = 1;  ///< of this loss in the one that the step lowers: its gradient has it
    LossBySource by_source = {};  ///< unless its sums are empty
    void tensors(const auto& list) const {
        list.updates(sum, by_source.sums);
        if (!by_source.sums.empty()) list.reads(by_source.sources);
    }
};

/// Softmax cross-entropy of a chunk of logits, with the whole vocabulary on this rank: each row's
/// loss is log sum exp(logits) - logits[target]. With `gradient`, weight (softmax - onehot(target))
/// sink.factor loss_scale / token_weight_sum overwrites the logits. If these come from SoftCap with
/// the cap `softcap`, the gradient is that of its input: times 1 - (logits / softcap)^2. Tokens of
/// weight 0 add nothing, whatever their target.
struct CrossEntropy {
    static constexpr std::string_view name = "cross_entropy";
    Tensor logits;   ///< [C, V] rows, in and out
    Tensor targets;  ///< i32 [C], global ids
    Tensor weights;  ///< fp32 [C]
    LossSink sink;
    StepRef step;
    bool gradient = true;
    float softcap = 0;  ///< 0: none
    void tensors(const auto& list) const {
        list.reads(targets, weights);
        sink.tensors(list);
        gradient ? list.updates(logits) : list.reads(logits);
    }
};

// The same with the vocabulary split over ranks: VocabParallelMaximum, then all_reduce (max) of
// `maximum`; VocabParallelSums, then all_reduce (sum) of `sums`; VocabParallelGradient. The logits
// [C, V] hold the ids vocab_begin .. vocab_begin + V - 1.

/// maximum = the largest logit of each row.
struct VocabParallelMaximum {
    static constexpr std::string_view name = "vocab_parallel_maximum";
    Tensor logits;   ///< [C, V] rows
    Tensor maximum;  ///< fp32 [C], =
    void tensors(const auto& list) const { list.reads(logits).writes(maximum); }
};

/// sums = (sum of exp(logit - maximum); the target's logit if it is local, else 0) of each row.
struct VocabParallelSums {
    static constexpr std::string_view name = "vocab_parallel_sums";
    Tensor logits;   ///< [C, V] rows
    Tensor targets;  ///< i32 [C], global ids
    std::int64_t vocab_begin = 0;
    Tensor maximum;  ///< fp32 [C]: over all ranks
    Tensor sums;     ///< fp32 [C, 2], =
    void tensors(const auto& list) const { list.reads(logits, targets, maximum).writes(sums); }
};

/// CrossEntropy's loss and gradient of the local logits.
struct VocabParallelGradient {
    static constexpr std::string_view name = "vocab_parallel_gradient";
    CrossEntropy loss;
    std::int64_t vocab_begin = 0;
    Tensor maximum;  ///< fp32 [C]: over all ranks
    Tensor sums;     ///< fp32 [C, 2]: over all ranks
    void tensors(const auto& list) const {
        loss.tensors(list);
        list.reads(maximum, sums);
    }
};

}  // namespace gptrain
