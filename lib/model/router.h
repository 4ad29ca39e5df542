// The router of a layer of experts, on the rows of the residual stream:
//
//   logits = n W_r^T (+ b)            fp32 [T, E], T rows of the stream
//   chosen, weights                   K experts of each row (RouterRule, base/router.h)
//
// and what balances the load of the experts (docs/experts.md): losses, whose gradients join that of
// the logits, and the counts by which the bias of the choice moves once a step.
#pragma once

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The tensors that forward keeps for backward, of the stream's rows.
struct SavedRouting {
    Tensor logits;         ///< fp32 [T, E]
    Tensor chosen;         ///< i32 [T, K]
    Tensor weights;        ///< fp32 [T, K]
    Tensor sequence_sums;  ///< fp64 [B, 2 E + 1] (BalanceSums), if the spec has the loss
    Tensor batch_sums;     ///< fp64 [1, 2 E + 1]: of the microbatch, likewise
};

class Router {
public:
    Router(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    /// Allocates what backward reads of `rows` rows of the stream.
    SavedRouting reserve(Arena& arena, std::int64_t rows) const;

    /// Chooses experts from n [T, H]. In training it also adds to the measures and to the counts of
    /// the step, unless it repeats an earlier pass.
    void forward(const Tensor& n, const SavedRouting& saved, const Pass& pass) const;
    /// Adds to dn [T, H] and to the gradients of the router's parameters. `dweights`: fp32 [T, K].
    void backward(const Tensor& n, const SavedRouting& saved, const Tensor& dweights,
                  const Tensor& dn, const Pass& pass) const;

private:
    const ExpertsSpec& experts() const { return *context_.shape.experts; }
    /// The number of a measure of this layer, fp64 [2].
    Tensor measure(Measure which, const Pass& pass) const;
    /// Sums over all ranks with rows of the same sequences.
    void sum(const Tensor& sums, const SavedRouting& saved, const Pass& pass) const;
    int ranks_of_sequence() const;
    /// Adds the losses to `loss`, fp64 [1], or their gradients to `dlogits`; the other is empty.
    void add_losses(const SavedRouting& saved, const Tensor& loss, const Tensor& dlogits,
                    const Pass& pass) const;

    const ModelContext& context_;
    std::int64_t layer_;
    RouterRule rule_;
    GroupTensors weight_;
    GroupTensors bias_;
    GroupTensors balance_;
};

}  // namespace gptrain
