// Every op by its formula in backend/ops.h: plain loops over doubles that carry their fp32 error
// bounds (bounded.h). Backends and reference share only the formulas of dropout.h. Shapes, names
// and the =, += rules are those of ops.h; an empty Array means "without".
#pragma once

#include "array.h"
#include "backend/ops.h"

namespace gptrain::reference {

// ---- linear layers ----
enum class Result { stored, added };
void linear_forward(const Array& x, const Array& weight, const Array& bias, Array& y,
                    Result result = Result::stored);
void linear_input_grad(const Array& dy, const Array& weight, const Array& gelu_input, Array& dx,
                       Result result = Result::stored);
/// `result`: of dweight; dbias is added to.
void linear_weight_grad(const Array& x, const Array& dy, Array& dweight, Array& dbias,
                        Result result = Result::added);
void bias_grad(const Array& dy, Array& dbias);
void add_bias(Array& y, const Array& bias);

// ---- FP8 matrices ----
/// amax = max(amax, |x|), which must be exact; does nothing without `amax`.
void update_amax(const Array& x, Array& amax);
/// `rows` and `columns` (either may be empty) in their FP8 format, and the scale.
void to_fp8(const Array& x, const Array& amax, Array& rows, Array& columns, Array& scale);
/// The matrix that `stored` represents; with `transpose`, its columns.
Array from_fp8(const Array& stored, const Array& scale, bool transpose);
/// `x` in e4m3 with scales for blocks of `block_rows` x 128 elements, 1 or 128: of x, or of its
/// transpose. Padding of the scales is 0.
void to_fp8_blocks(const Array& x, std::int64_t block_rows, Array& stored, Array& scales,
                   bool transpose);
/// The stored matrix times its scales, or the transpose.
Array from_fp8_blocks(const Array& stored, const Array& scales, std::int64_t block_rows,
                      bool transpose);

// ---- int8 matrices ----
void to_int8(const Array& x, Array& values, Array& scales);
Array from_int8(const Array& values, const Array& scales);

// ---- dropout ----

/// Dropout with the coordinates that ops read from the step state.
struct Mask {
    Dropout dropout;
    std::int64_t step = 0;
    std::int64_t first_sequence = 0;

    /// 0 or 1 / (1 - probability). `sequence` counts in the microbatch; `index` is the feature or
    /// key.
    Bounded factor(std::int64_t sequence, std::int64_t position, std::int64_t head,
                   std::int64_t index) const;
};

/// x [T, H], element by element.
void dropout(const Mask& mask, std::int64_t seq_length, Array& x);

// ---- norms ----
struct NormKind {
    bool rms = false;
    float eps = 1e-5f;
};
void norm_forward(const NormKind& kind, const Array& r, const Array& weight, const Array& bias,
                  Array& n, Array& mean, Array& rstd);
/// dr += ; dweight += ; dbias +=
void norm_backward(const Array& dn, const Array& r, const Array& weight, const Array& mean,
                   const Array& rstd, Array& dr, Array& dweight, Array& dbias);

void head_norm_forward(float eps, const Array& x, const Array& weight, Array& y);
/// dweight +=
void head_norm_backward(float eps, const Array& dy, const Array& x, const Array& weight, Array& dx,
                        Array& dweight);

// ---- activation functions ----
/// 1 / (1 + e^-x)
Bounded logistic(const Bounded& x);
void activation_forward(Activation activation, const Array& u, Array& y);
void activation_backward(Activation activation, const Array& u, const Array& dy, Array& du);

// ---- embeddings and positions ----
void embedding_forward(const Array& ids, const Array& weight, std::int64_t vocab_begin, Array& x);
void embedding_backward(const Array& ids, const Array& dx, std::int64_t vocab_begin,
                        Array& dweight);
void rope(Array& x, const Array& positions, const Rope& how);

// ---- attention ----
struct Visibility {
    std::int64_t q_begin = 0;
    std::int64_t k_begin = 0;
    Array first_visible;
    bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const;
};
/// The change of scaled products.
struct ScoreRule {
    double softcap = 0;  ///< 0: none
    Alibi alibi = {};
};
struct AttentionInput {
    const Array& q;
    const Array& k;
    const Array& v;
    Visibility visibility;
    Mask mask;
    ScoreRule rule = {};
};
void attention_forward(const AttentionInput& in, Array& o, Array& lse);
/// dq, dk, dv +=
void attention_backward(const AttentionInput& in, const Array& o, const Array& lse,
                        const Array& d_o, Array& dq, Array& dk, Array& dv);
/// o_sum and lse_sum are inputs and outputs.
void merge_attention(const Array& o, const Array& lse, Array& o_sum, Array& lse_sum);
/// o and lse are inputs and outputs.
void sink_forward(const Array& sinks, Array& o, Array& lse);
/// dsinks -=
void sink_backward(const Array& sinks, const Array& o, const Array& lse, const Array& d_o,
                   Array& dsinks);

// ---- experts ----

/// A choice that rounding could change is an Error (bug) of the case.
void router_forward(const RouterRule& rule, const Array& logits, const Array& balance,
                    Array& chosen, Array& weights);
void router_backward(const RouterRule& rule, const Array& logits, const Array& chosen,
                     const Array& dweights, Array& dlogits);
void balance_sums(const RouterRule& rule, const Array& logits, const Array& chosen,
                  const Array& token_weights, Array& sums);
/// `gradient_scale` is factor loss_scale / token_weight_sum. loss += ; dlogits +=
void balance_loss(const RouterRule& rule, std::int64_t per_token, const Array& logits,
                  const Array& token_weights, const Array& sums, double part, double gradient_scale,
                  Array& loss, Array& dlogits);
void router_z_loss(const Array& logits, const Array& token_weights, double factor,
                   double gradient_scale, Array& loss, Array& dlogits);
/// counts += ; entropy +=
void measure_router(const RouterRule& rule, const Array& logits, const Array& chosen,
                    const Array& token_weights, Array& counts, Array& entropy, Array& weight);
void measure_loads(const Array& counts, Array& loads, Array& unused);
void update_balance(const Array& counts, double rate, Array& balance);

/// Slots without a row stay as they are.
void group_by_expert(const Array& chosen, Array& offsets, Array& slots, Array& places);
/// unplaced +=
void place_rows(const Array& chosen, const Array& weights, std::int64_t experts_per_rank,
                Array& places, Array& slots, Array& experts, Array& weighted, Array& unplaced);
/// A row without a slot is 0.
void gather_rows(const Array& x, const Array& slots, const Array& weights, std::int64_t per_token,
                 Array& rows);
void combine_rows(const Array& rows, const Array& places, const Array& weights, Array& y,
                  Result result);
/// The part of WeightRows that a bias adds; empty without one.
struct RowsBias {
    const Array& bias;
    const Array& dy;
    const Array& offsets;
};
void weight_rows(const Array& a, Array& da, const Array& places, const Array& weights,
                 const RowsBias& added, Array& dweights);
void gate_rows(const Array& x, const Array& logits, Array& y);
void gate_rows_backward(const Array& x, const Array& logits, const Array& dy, Array& dx,
                        Array& dlogits);

void grouped_forward(const Array& x, const Array& weight, const Array& bias, const Array& offsets,
                     Array& y);
void grouped_input_grad(const Array& dy, const Array& weight, const Array& offsets, Array& dx);
void grouped_weight_grad(const Array& x, const Array& dy, const Array& offsets, Array& dweight,
                         Result result);
/// dbias +=
void grouped_bias_grad(const Array& dy, const Array& offsets, Array& dbias);

// ---- loss and optimizer ----

void soft_cap(Array& x, double cap);
/// `gradient_scale` is loss_scale / token_weight_sum. `softcap`: of the logits, 0 for none.
void cross_entropy(Array& logits, const Array& targets, const Array& weights, bool gradient,
                   double gradient_scale, Bounded& loss_sum, double softcap = 0);
void adamw(Array& main_param, const Array& main_grad, Array& exp_avg, Array& exp_avg_sq, bool decay,
           const AdamWConstants& constants, const StepState& state);

}  // namespace gptrain::reference
