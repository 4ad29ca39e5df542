// The feed-forward half of a block with experts, for R rows of tokens by expert (expert_rows.h), F
// hidden features of an expert on this rank:
//
//   chosen, weights = router(n)                       (router.h)
//   x = the rows of n, by expert                      [R, H]
//   u = x W_fc_gate^T of the row's expert             [R, F], or with a gate [fc | gate] [R, 2 F]
//   a = g(u)                                          [R, F]
//   y = sum over the experts of a token of weight (a W_proj^T), with the shared expert + shared(n)
//
// with biases also u + b_fc_gate and a W_proj^T + b_proj, of the row's expert. Ranks of tp that
// split F have parts of the sum of a W_proj^T: the first one adds b_proj to it.
//
// between the norm of normed_branch.h and the residual stream. shared is an mlp (TwoLinears)
// without biases that every token uses; with a gate it is multiplied by sigmoid(n w_gate^T). tp
// splits its features, as of an mlp.
//
// In several slices (Pass::expert_slices) each range of tokens goes through x, u, a and y alone,
// and again in backward: of the experts only n and the choice are kept.
#pragma once

#include "model/expert_rows.h"
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
    SavedBranch branch;
    Tensor n;  ///< [T, H] of the stream
    SavedRouting routing;
    ExpertOrder order;
    Tensor arrived;  ///< n as it has arrived at the experts, if it was sent there and is kept
    Tensor u;        ///< [R, U]
    Tensor a;        ///< [R, F]
    SavedShared shared;
};

class Experts {
public:
    Experts(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    const NormedBranch& branch() const { return branch_; }

    /// Allocates what `recompute` keeps of `tokens` tokens. `r`, unless empty, is the residual
    /// stream that the half reads, kept elsewhere.
    SavedExperts reserve(Arena& arena, Recompute recompute, std::int64_t tokens,
                         const Tensor& r) const;
    DeferredHalf reserve_deferred(Arena& arena, std::int64_t tokens) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedExperts with_workspace(const SavedExperts& kept, const Tensor& stream, const Batch& batch,
                                bool for_backward) const;

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
    /// The operands and results of backward for the rows of a range of tokens.
    struct RowsBackward {
        const SavedExperts& saved;
        TokenRange range;
        bool first = true;  ///< of the ranges
        bool alone = true;  ///< the range has all tokens
        Tensor dy;          ///< [T, H] of the stream
        Tensor du;          ///< [R, U]; empty: in the workspace
        Tensor dn;          ///< [T, H]; empty for W
        Tensor dweights;    ///< fp32 [T, K]
    };
    const ExpertsSpec& experts() const { return *context_.shape.experts; }
    Activation activation() const { return context_.shape.activation; }
    Shape u_shape(std::int64_t tokens) const;
    Shape a_shape(std::int64_t tokens) const;
    /// Where this rank adds the bias of proj to what it computes; otherwise empty.
    Tensor added_bias() const;
    bool has_shared() const { return shared_.has_value(); }
    bool gated_shared() const { return gate_.present(); }
    /// Memory for n where it arrives, if it is sent.
    Tensor reserve_arrived(Arena& arena, std::int64_t tokens) const;
    SavedShared reserve_shared(Arena& arena, Recompute recompute, std::int64_t tokens) const;

    std::vector<TokenRange> slices(const SavedExperts& saved, const Pass& pass) const;
    ExpertRows rows_of(const SavedExperts& saved, const TokenRange& range) const;
    /// y = x W^T + bias for rows by expert.
    void multiply(const ExpertRows& rows, const GroupTensors& weight, const Tensor& bias,
                  const Tensor& x, const Tensor& y) const;
    /// dx = dy W, likewise.
    void input_gradient(const ExpertRows& rows, const GroupTensors& weight, const Tensor& dy,
                        const Tensor& dx) const;
    /// u and a of what has arrived at the experts.
    void compute(const ExpertRows& rows, const Tensor& arrived, const Tensor& u,
                 const Tensor& a) const;
    /// y of the rows of a; takes workspace memory until it has been waited for.
    Pending project_rows(const ExpertRows& rows, const Tensor& a, const Tensor& y) const;
    /// y of a range of tokens, from n; `saved` lends the memory in between.
    void forward_alone(const SavedExperts& saved, const TokenRange& range, const Tensor& y,
                       const Pass& pass) const;
    void activate(const Tensor& u, const Tensor& a) const;
    /// saved.shared from saved.n: with a gate also y, which its gradient reads.
    void shared_forward(const SavedExperts& saved, const Pass& pass) const;
    /// The output of the shared expert, in the workspace.
    Tensor shared_output(const SavedExperts& saved, const Pass& pass) const;
    /// Recomputes n, and without slices a, if the part needs them and they were not kept.
    SavedExperts rebuilt(const SavedExperts& kept, BackwardPart part, bool sliced) const;
    void backward_rows(const RowsBackward& args, const Pass& pass, BackwardPart part) const;
    /// du from dy, a and u, at the experts. The gradient of the weights of the choice is on its way
    /// to `dweights`.
    Pending hidden_gradient(const ExpertRows& rows, const Tensor& dy, const Tensor& a,
                            const Tensor& u, const Tensor& du, const Tensor& dweights) const;
    struct WeightOperands {
        Tensor n;  ///< as it has arrived, as dy
        Tensor dy;
        Tensor a;   ///< [R, F]
        Tensor du;  ///< [R, U]
    };
    void weight_gradients(const ExpertRows& rows, const WeightOperands& operands,
                          bool accumulate) const;
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
    GroupTensors fc_gate_;       ///< [P, E, F, H]
    GroupTensors fc_gate_bias_;  ///< [P, E, F], or empty
    GroupTensors proj_;          ///< [1, E, H, F]
    GroupTensors proj_bias_;     ///< [1, E, H], or empty
    std::optional<TwoLinears> shared_;
    GroupTensors gate_;  ///< [1, H]
};

}  // namespace gptrain
