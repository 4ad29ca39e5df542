// The rows of some tokens by expert (backend/expert_ops.h), and their way to the experts and back.
// T tokens of the residual stream have K experts each, E in all.
//
// All experts on each rank: their features are split over tp, so all ranks of tp need the rows of
// all tokens (slices.h). R = K times the tokens of all ranks of tp.
//
// P ranks of Axis::experts divide the experts: the row of a slot goes to the rank of its expert, in
// P messages of C rows each (PlaceRows; C: ExpertsSpec::message_rows). There each row is a token
// with one expert, R = P C. Rows of a message without a slot have no expert and are not computed.
// A slot that finds its message full has no row; the step is then computed again in slices, ranges
// of the tokens that are sent one after the other (Skip::repeat).
#pragma once

#include <vector>

#include "model/router.h"

namespace gptrain {

/// A range of the rows of the stream.
struct TokenRange {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

/// Where the rows of tokens are: what forward keeps for backward, unless it computes in slices.
struct ExpertOrder {
    Tensor sent_places;  ///< i32 [T, K]: of each slot in the messages; empty unless rows are sent
    Tensor sent_slots;   ///< i32 [P, C]; likewise
    /// At the experts: K' is 1 for rows that have been sent, else K.
    Tensor weights;  ///< fp32 [R / K', K']; empty if they are those of the routing
    Tensor offsets;  ///< i32 [E of this rank + 1]
    Tensor slots;    ///< i32 [R]
    Tensor places;   ///< i32 [R / K', K']
};

/// Rows on their way to the experts.
struct ArrivingRowsOfExperts {
    Tensor rows;  ///< [R / K', W], once `pending` has been waited for
    Pending pending;
};

class ExpertRows {
public:
    /// The rows of `range` of the stream. `order` has memory for all of them or more.
    ExpertRows(const ModelContext& context, const SavedRouting& routing, const ExpertOrder& order,
               const TokenRange& range);

    /// R for `tokens` tokens of a batch.
    static std::int64_t count(const ModelContext& context, std::int64_t tokens);
    static ExpertOrder reserve(const ModelContext& context, Arena& arena, std::int64_t tokens);
    /// The ranges of a stream of `rows` rows, in the order in which a pass computes them.
    static std::vector<TokenRange> slices(const ModelContext& context, std::int64_t rows,
                                          const Pass& pass);

    /// Orders the rows: fills `order`. In training it counts slots without a place.
    void place(const Pass& pass) const;
    const Tensor& offsets() const { return order_.offsets; }
    /// Rows with equal loads, of grouped linear layers.
    std::int64_t expected() const { return sent() ? routing_.chosen.elements() : 0; }

    /// Sends the tokens of x [T, W] to the experts. They arrive in `to`, or in the workspace if it
    /// is empty.
    ArrivingRowsOfExperts send(const Tensor& x, const Tensor& to = {}) const;
    /// The rows by expert, [R, W] in the workspace, of what arrived; times their weights if asked.
    Tensor by_expert(const Tensor& arrived, bool weighted = false) const;
    /// y [T, W] = for each token the sum of its rows, [R, W] by expert, times their weights if
    /// asked. Takes workspace memory, and needs it until the result has been waited for.
    Pending back(const Tensor& rows, const Tensor& y, bool weighted) const;
    struct Weighed {
        Tensor a;         ///< [R, F]
        Tensor da;        ///< [R, F]: gets the weights
        Tensor dweights;  ///< fp32 [T, K]: where their gradient arrives
        Tensor bias;      ///< [1, E, W] of the product of a, or empty
        Tensor dy;        ///< [R / K', W]: as it has arrived
    };
    /// WeightRows at the experts. Memory as above.
    Pending weigh(const Weighed& args) const;

private:
    bool sent() const { return !order_.sent_slots.empty(); }
    const Tensor& weights() const {
        return order_.weights.empty() ? routing_.weights : order_.weights;
    }
    std::int64_t per_token() const { return order_.places.size(1); }
    /// Part i of `to` becomes what rank i of the experts has sent: all of it, or with `slots` the
    /// rows that have one.
    Pending exchange(const Tensor& to, const Tensor& messages, const Tensor& slots = {}) const;

    const ModelContext& context_;
    SavedRouting routing_;  ///< of the range
    ExpertOrder order_;
};

}  // namespace gptrain
