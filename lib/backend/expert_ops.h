// Ops of a layer of experts: router, rows by expert, grouped linear layers. Legend of the shapes:
// ops.h.
//
// A token t has K slots, t K .. t K + K - 1, one for each expert chosen for it, experts ascending.
// Each slot has a row. Rows are grouped by expert, experts ascending, and within one they follow
// the order of their tokens: expert e has the rows offsets[e] .. offsets[e + 1] - 1. Rows from
// offsets[E] on, if a tensor has more, belong to no slot: nothing reads or writes them.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/step_state.h"
#include "backend/value_ops.h"
#include "base/router.h"

namespace gptrain {

// ---- router -------------------------------------------------------------------------------------

/// Chooses K experts for each token, and their weights (RouterRule).
struct RouterForward {
    static constexpr std::string_view name = "router_forward";
    Tensor logits;   ///< fp32 [T, E]
    Tensor balance;  ///< fp32 [E]: the bias of the choice, or empty
    RouterRule rule;
    Tensor chosen;   ///< i32 [T, K], =: ascending
    Tensor weights;  ///< fp32 [T, K], =
    void tensors(const auto& list) const { list.reads(logits, balance).writes(chosen, weights); }
};

/// The gradient of the logits from that of the weights. The choice has none.
struct RouterBackward {
    static constexpr std::string_view name = "router_backward";
    Tensor logits;  ///< fp32 [T, E]
    RouterRule rule;
    Tensor chosen;    ///< i32 [T, K]
    Tensor dweights;  ///< fp32 [T, K]
    Tensor dlogits;   ///< fp32 [T, E], =
    void tensors(const auto& list) const { list.reads(logits, chosen, dweights).writes(dlogits); }
};

// The losses of a router use its share q of each expert: softmax scores, or sigmoid scores divided
// by the sum of all of the token's + 1e-20. Tokens count by their weights; one of weight 0 has no
// part in anything.

/// The sums over the tokens of a group that the balance loss needs: row g of `sums` is
/// [C_0 .. C_{E-1}, Q_0 .. Q_{E-1}, W] with C_e the weight of the tokens that chose e, Q_e the sum
/// of weight x q_e, W the sum of the weights. The groups have T / groups neighbouring tokens each.
struct BalanceSums {
    static constexpr std::string_view name = "balance_sums";
    Tensor logits;  ///< fp32 [T, E]
    RouterRule rule;
    Tensor chosen;         ///< i32 [T, K]
    Tensor token_weights;  ///< fp32 [T]
    Tensor sums;           ///< fp64 [groups, 2 E + 1], =
    void tensors(const auto& list) const { list.reads(logits, chosen, token_weights).writes(sums); }
};

/// The balance loss: the sum over groups of loss_g = (E / K) sum_e C_e Q_e / W (0 if W is 0), which
/// is W at perfect balance; C is a constant in its gradient. With the sums of all ranks that hold
/// parts of the groups. Adds `part` loss_g of each group to `loss`, and factor d(sum of
/// loss_g)/dlogits loss_scale / token_weight_sum to `dlogits`.
struct BalanceLoss {
    static constexpr std::string_view name = "balance_loss";
    Tensor logits;  ///< fp32 [T, E]
    RouterRule rule;
    std::int64_t per_token = 1;  ///< K
    Tensor token_weights;        ///< fp32 [T]
    Tensor sums;                 ///< fp64 [groups, 2 E + 1]
    double factor = 0;
    double part = 1;  ///< of the loss that this rank reports
    Tensor loss;      ///< fp64 [1] or empty, +=
    Tensor dlogits;   ///< fp32 [T, E] or empty, +=
    StepRef step;
    void tensors(const auto& list) const {
        list.reads(logits, token_weights, sums).updates(loss, dlogits);
    }
};

/// The z-loss (Zoph et al. 2022, arXiv 2202.08906): the sum over tokens of
/// weight (log sum exp(logits))^2. Adds factor x it to `loss`, and its gradient times
/// factor loss_scale / token_weight_sum to `dlogits`.
struct RouterZLoss {
    static constexpr std::string_view name = "router_z_loss";
    Tensor logits;         ///< fp32 [T, E]
    Tensor token_weights;  ///< fp32 [T]
    double factor = 0;
    Tensor loss;     ///< fp64 [1] or empty, +=
    Tensor dlogits;  ///< fp32 [T, E] or empty, +=
    StepRef step;
    void tensors(const auto& list) const {
        list.reads(logits, token_weights).updates(loss, dlogits);
    }
};

/// Counts choices and entropy: counts[e] += the weight of the tokens that chose e; entropy[0] +=
/// the sum of weight x (-sum_e q_e log q_e), entropy[1] += the sum of the weights.
struct MeasureRouter {
    static constexpr std::string_view name = "measure_router";
    Tensor logits;  ///< fp32 [T, E]
    RouterRule rule;
    Tensor chosen;         ///< i32 [T, K]
    Tensor token_weights;  ///< fp32 [T]
    Tensor counts;         ///< fp64 [E] or empty, +=
    Tensor entropy;        ///< fp64 [2], +=
    Tensor weight = {};    ///< fp64 [1] or empty, +=
    void tensors(const auto& list) const {
        list.reads(logits, chosen, token_weights).updates(counts, entropy, weight);
    }
};

/// For each layer l with any counts: loads[l] += (largest count / mean count, 1), unused[l] +=
/// (number of experts with count 0, 1).
struct MeasureLoads {
    static constexpr std::string_view name = "measure_loads";
    Tensor counts;  ///< fp64 [L, E]
    Tensor loads;   ///< fp64 [L, 2], +=
    Tensor unused;  ///< fp64 [L, 2], +=
    void tensors(const auto& list) const { list.reads(counts).updates(loads, unused); }
};

/// balance[e] += rate sign(mean count - count[e]), sign(0) = 0 (Wang et al. 2024, arXiv
/// 2408.15664). Nothing with step.skip.
struct UpdateBalance {
    static constexpr std::string_view name = "update_balance";
    Tensor counts;   ///< fp64 [E]: of the global batch
    Tensor balance;  ///< fp32 [E], in and out
    double rate = 0;
    StepRef step;
    void tensors(const auto& list) const { list.reads(counts).updates(balance); }
};

// ---- rows by expert -----------------------------------------------------------------------------

/// Orders rows by expert. A slot with chosen = -1 has no row, and place -1.
struct GroupByExpert {
    static constexpr std::string_view name = "group_by_expert";
    Tensor chosen;   ///< i32 [T, K]
    Tensor offsets;  ///< i32 [E + 1], =
    Tensor slots;  ///< i32 [T K], =: the slot of each row; rows from offsets[E] on stay as they are
    Tensor places;  ///< i32 [T, K], =: the row of each slot
    void tensors(const auto& list) const { list.reads(chosen).writes(offsets, slots, places); }
};

/// Gives the rows of the slots places in P messages of C rows each, to the ranks that divide the
/// experts among them: rank p has the experts p E' .. (p + 1) E' - 1, E' = `experts_per_rank`. A
/// message has the rows of its experts in the order of the slots, from its begin on. Slots with
/// chosen = -1, and those that find their message full, have place -1; `unplaced` counts the
/// latter.
struct PlaceRows {
    static constexpr std::string_view name = "place_rows";
    Tensor chosen;   ///< i32 [T, K]
    Tensor weights;  ///< fp32 [T, K]
    std::int64_t experts_per_rank = 1;
    Tensor places;    ///< i32 [T, K], =: the row in [P C] of each slot
    Tensor slots;     ///< i32 [P, C], =: the slot of each row, or -1
    Tensor experts;   ///< i32 [P, C], =: chosen - p E' of the slot, or -1
    Tensor weighted;  ///< fp32 [P, C], =: the weight of the slot, or 0
    Tensor unplaced;  ///< fp64 [1] or empty, +=
    void tensors(const auto& list) const {
        list.reads(chosen, weights).writes(places, slots, experts, weighted).updates(unplaced);
    }
};

/// rows[r] = x[slots[r] / K], with weights times weights[slots[r]], rounded once. Without offsets
/// all R rows are written: those with slot -1 are 0.
struct GatherRows {
    static constexpr std::string_view name = "gather_rows";
    Tensor x;                    ///< [T, H] rows
    Tensor slots;                ///< i32 [R]
    Tensor offsets;              ///< i32 [E + 1], or empty
    std::int64_t per_token = 1;  ///< K
    Tensor rows;                 ///< [R, H], =
    Tensor weights = {};         ///< fp32 [T, K] or empty
    void tensors(const auto& list) const { list.reads(x, slots, offsets, weights).writes(rows); }
};

/// y[t] (+)= the sum over j of weights[t, j] rows[places[t, j]], in the order of j in fp32, rounded
/// once; with `accumulate`, y[t] is added last. Without weights they are 1. A place of -1 adds
/// nothing.
struct CombineRows {
    static constexpr std::string_view name = "combine_rows";
    Tensor rows;     ///< [R, H]
    Tensor places;   ///< i32 [T, K]
    Tensor weights;  ///< fp32 [T, K] or empty
    Tensor y;        ///< [T, H] rows; += if `accumulate`, else =
    bool accumulate = false;
    void tensors(const auto& list) const {
        list.reads(rows, places, weights);
        accumulate ? list.updates(y) : list.writes(y);
    }
};

/// Backward through the weights, where rows of `a` were multiplied by a matrix and then by their
/// weights, and `da` is the gradient of the rows of `a` before it has the weights: with w the
/// weight of the row's slot, dweights[slot] = <a[r], da[r]> in fp32, then da[r] = w da[r], rounded
/// once. If the row's expert e added a bias to the product, <bias[e], dy[t]> is added to
/// dweights[slot]. Slots without a row get 0.
struct WeightRows {
    static constexpr std::string_view name = "weight_rows";
    Tensor a;         ///< [R, F]: only read
    Tensor da;        ///< [R, F], in and out
    Tensor places;    ///< i32 [T, K]
    Tensor weights;   ///< fp32 [T, K]
    Tensor dweights;  ///< fp32 [T, K], =
    struct Bias {
        Tensor bias;     ///< [E, H] or empty, and so are the others
        Tensor dy;       ///< [T, H]: the gradient of the rows' sums
        Tensor offsets;  ///< i32 [E + 1]
    } added = {};
    void tensors(const auto& list) const {
        list.reads(a, places, weights, added.bias, added.dy, added.offsets)
            .updates(da)
            .writes(dweights);
    }
};

/// y[t] = sigmoid(logits[t]) x[t]
struct GateRows {
    static constexpr std::string_view name = "gate_rows";
    Tensor x;       ///< [T, H]
    Tensor logits;  ///< fp32 [T, 1]
    Tensor y;       ///< [T, H], =; may be x
    void tensors(const auto& list) const { list.reads(x, logits).writes(y); }
};

/// With s = sigmoid(logits[t]): dx[t] = s dy[t], dlogits[t] = s (1 - s) <x[t], dy[t]> in fp32.
struct GateRowsBackward {
    static constexpr std::string_view name = "gate_rows_backward";
    Tensor x;        ///< [T, H]
    Tensor logits;   ///< fp32 [T, 1]
    Tensor dy;       ///< [T, H]
    Tensor dx;       ///< [T, H], =
    Tensor dlogits;  ///< fp32 [T, 1], =
    void tensors(const auto& list) const { list.reads(x, logits, dy).writes(dx, dlogits); }
};

// ---- grouped linear layers ----------------------------------------------------------------------

// A linear layer for each expert, of P matrices [O, I] whose outputs stand side by side: fc and
// gate (P = 2), or one. The bits of a row do not depend on how many rows its expert has.
// `expected`: the rows that experts have if all ranks have equal loads, by which time and work are
// estimated; 0: all.

/// y[r] = x[r] [W_0; ..; W_{P-1}]^T with the matrices W_p = weight[p, e] of the row's expert e,
/// plus [bias[0, e], .., bias[P - 1, e]] before rounding
struct GroupedForward {
    static constexpr std::string_view name = "grouped_forward";
    Tensor x;          ///< [R, I]
    Tensor weight;     ///< [P, E, O, I]
    Tensor offsets;    ///< i32 [E + 1]
    Tensor y;          ///< [R, P O], =
    Tensor bias = {};  ///< [P, E, O] or empty
    std::int64_t expected = 0;
    void tensors(const auto& list) const { list.reads(x, weight, offsets, bias).writes(y); }
};

/// out[p, e] = x[p, e], rounded once, for every expert e that has rows; the others stay as they are
struct GroupedFromInt8 {
    static constexpr std::string_view name = "grouped_from_int8";
    Int8Matrix x;           ///< [P, E, O, I]
    Tensor offsets;         ///< i32 [E + 1]
    Tensor out;             ///< [P, E, O, I], compute dtype
    std::int64_t rows = 0;  ///< R: no more experts have rows; time is estimated by that
    void tensors(const auto& list) const { list.reads(x.values, x.scales, offsets).writes(out); }
};

/// dx[r] = the sum over p of dy[r, p O .. p O + O - 1] weight[p, e], rounded once
struct GroupedInputGrad {
    static constexpr std::string_view name = "grouped_input_grad";
    Tensor dy;       ///< [R, P O]
    Tensor weight;   ///< [P, E, O, I]
    Tensor offsets;  ///< i32 [E + 1]
    Tensor dx;       ///< [R, I], =
    std::int64_t expected = 0;
    void tensors(const auto& list) const { list.reads(dy, weight, offsets).writes(dx); }
};

/// dweight[p, e] (+)= the sum over the rows r of e of dy[r, p O ..]^T x[r]. An expert without rows
/// adds 0.
struct GroupedWeightGrad {
    static constexpr std::string_view name = "grouped_weight_grad";
    Tensor x;        ///< [R, I]
    Tensor dy;       ///< [R, P O]
    Tensor offsets;  ///< i32 [E + 1]
    Tensor dweight;  ///< fp32 [P, E, O, I]; += if `accumulate`, else =
    bool accumulate = true;
    std::int64_t expected = 0;
    void tensors(const auto& list) const {
        list.reads(x, dy, offsets);
        accumulate ? list.updates(dweight) : list.writes(dweight);
    }
};

/// dbias[p, e] += the sum over the rows r of e of dy[r, p O .. p O + O - 1], in an order that
/// depends only on their number
struct GroupedBiasGrad {
    static constexpr std::string_view name = "grouped_bias_grad";
    Tensor dy;       ///< [R, P O]
    Tensor offsets;  ///< i32 [E + 1]
    Tensor dbias;    ///< fp32 [P, E, O], +=
    void tensors(const auto& list) const { list.reads(dy, offsets).updates(dbias); }
};

}  // namespace gptrain
