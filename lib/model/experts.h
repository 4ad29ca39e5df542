// The feed-forward half of a block with experts, for T tokens of all ranks of tp, K experts of a
// token, R = T K rows in the order of backend/expert_ops.h, F hidden features of an expert on this
// rank:
//
//   chosen, weights = router(n)                       (router.h)
//   x = the rows of n, by expert                      [R, H]
//   u = x W_fc_gate^T of the row's expert             [R, F], or with swiglu [fc | gate] [R, 2 F]
//   a = g(u)                                          [R, F]
//   y = sum over the experts of a token of weight (a W_proj^T) + shared(n)
//
// between the norm of normed_branch.h and the residual stream. shared is an mlp (TwoLinears)
// without biases that every token uses; with a gate it is multiplied by sigmoid(n w_gate^T). tp
// splits the features of all experts, as of an mlp.
#pragma once

#include "model/router.h"
#include "model/two_linears.h"

namespace gptrain {

/// The tensors that forward keeps of the shared expert, for the stream's rows.
struct SavedShared {
    SavedLinears linears;
    Tensor gate;  ///< fp32 [T, 1]: logits; empty without a gate
    Tensor y;     ///< [T, H]: before the gate; empty without one
};

/// The tensors that forward keeps for backward, which rebuilds n and a unless they are kept.
struct SavedExperts {
    SavedNorm norm;
    Tensor n;  ///< [T, H] of the stream
    SavedRouting routing;
    Tensor u;  ///< [R, U]
    Tensor a;  ///< [R, F]
    SavedShared shared;
};

class Experts {
public:
    Experts(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    const NormedBranch& branch() const { return branch_; }

    /// Allocates what `recompute` keeps of `tokens` tokens.
    SavedExperts reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const;
    DeferredHalf reserve_deferred(Arena& arena, std::int64_t tokens) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedExperts with_workspace(const SavedExperts& kept, const Tensor& stream,
                                const Batch& batch) const;

    /// Computes n, the choice, u and a from the stream; `saved` must be complete.
    void forward(Stream& stream, const SavedExperts& saved, const Pass& pass) const;
    /// Computes y from a. It joins the stream.
    void project(Stream& stream, const SavedExperts& saved, const Tensor& y,
                 const Pass& pass) const;

    /// Turns grad.dy into the gradient of the stream before this half. `branch_dropout` is the
    /// dropout of the branch that the norm added to the stream. `deferred`, unless empty, keeps
    /// what W needs.
    void backward(const SavedExperts& kept, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const;

private:
    /// The rows of experts, in the workspace, for the tokens of all ranks of tp.
    struct Rows {
        Tensor offsets;  ///< i32 [E + 1]
        Tensor slots;    ///< i32 [R]
        Tensor places;   ///< i32 [T, K]
        Tensor weights;  ///< fp32 [T, K]
    };
    const ExpertsSpec& experts() const { return *context_.shape.experts; }
    Activation activation() const { return context_.shape.activation; }
    Shape u_shape(std::int64_t tokens) const;
    Shape a_shape(std::int64_t tokens) const;
    bool has_shared() const { return shared_.has_value(); }
    bool gated_shared() const { return gate_.present(); }
    SavedShared reserve_shared(Arena& arena, Recompute recompute, std::int64_t tokens) const;

    Rows rows_of(const SavedRouting& routing) const;
    /// The rows of x [T, H] of the stream by expert, times their weights if asked.
    Tensor gather(const Tensor& x, const Rows& rows, bool weighted = false) const;
    void activate(const Tensor& u, const Tensor& a) const;
    /// saved.shared from saved.n: with a gate also y, which its gradient reads.
    void shared_forward(const SavedExperts& saved, const Pass& pass) const;
    void add_shared(const SavedExperts& saved, const Tensor& y, const Pass& pass) const;
    /// Recomputes n and a if the part needs them and they were not kept.
    SavedExperts rebuilt(const SavedExperts& kept, BackwardPart part) const;
    /// du, and the gradient of the weights of the choice, fp32 [T, K] of the stream.
    Tensor weights_gradient(const SavedExperts& saved, const Rows& rows, const Tensor& dy,
                            const Tensor& du) const;
    /// dn = the gradient of n through the rows of experts.
    void rows_gradient(const Rows& rows, const Tensor& du, const Tensor& dn) const;
    void weight_gradients(const SavedExperts& saved, const Rows& rows, const Tensor& dy,
                          const Tensor& du, const Pass& pass) const;
    /// Adds to dn, unless the part is W.
    void shared_backward(const SavedExperts& saved, const Tensor& dy, const Tensor& dn,
                         const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const;
    /// The gradient of the shared expert's y before the gate. Adds to dn and to the gradient of the
    /// gate's weight, unless the part is W.
    Tensor ungated(const SavedExperts& saved, const Tensor& dy, const Tensor& dn,
                   BackwardPart part) const;

    const ModelContext& context_;
    NormedBranch branch_;
    Router router_;
    GroupTensors fc_gate_;  ///< [P, E, F, H]
    GroupTensors proj_;     ///< [1, E, H, F]
    std::optional<TwoLinears> shared_;
    GroupTensors gate_;  ///< [1, H]
};

}  // namespace gptrain
