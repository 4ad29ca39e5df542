// The feed-forward half of a block with one mlp, for F hidden features on this rank:
//
//   u = fc         [T, F], or with swiglu [fc | gate] [T, 2 F]
//   a = gelu(u)    [T, F], or silu(gate) fc
//
// between the norm of normed_branch.h and the projection of two_linears.h.
#pragma once

#include "model/two_linears.h"

namespace gptrain {

/// The tensors that forward keeps for backward.
struct SavedMlp {
    SavedBranch branch;
    SavedLinears linears;
};

class Mlp {
public:
    Mlp(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    const NormedBranch& branch() const { return branch_; }
    /// True if backward reads rows8 of grad.dy.
    bool takes_dy8() const { return !branch_.has_post_norm() && linears_.proj().takes_dy8(); }

    /// Allocates what `recompute` keeps of `tokens` tokens. `r`, unless empty, is the residual
    /// stream that the half reads, kept elsewhere.
    SavedMlp reserve(Arena& arena, Recompute recompute, std::int64_t tokens, const Tensor& r) const;
    DeferredHalf reserve_deferred(Arena& arena, std::int64_t tokens) const {
        return linears_.reserve_deferred(arena, tokens);
    }
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept. `for_backward`: backward reads the result, and not only forward.
    SavedMlp with_workspace(const SavedMlp& kept, const Tensor& stream, const Batch& batch,
                            bool for_backward) const;

    /// Computes n, u and a from the stream; `saved` must be complete.
    void forward(Stream& stream, const SavedMlp& saved, const Pass& pass) const;
    /// Computes y from a. It joins the stream.
    void project(Stream& stream, const SavedMlp& saved, const Tensor& y, const Pass& pass) const;

    /// Turns grad.dy into the gradient of the stream before this half. `branch_dropout` is the
    /// dropout of the branch that the norm added to the stream. `deferred`, unless empty, keeps
    /// what W needs.
    void backward(const SavedMlp& kept, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const;

private:
    Activation activation() const { return context_.shape.activation; }
    /// GEMMs do the activation function and its gradient in their epilogues.
    bool fuses() const {
        return (activation() == Activation::gelu || activation() == Activation::swiglu) &&
               linears_.takes_epilogues();
    }
    /// Recomputes n and a if the part needs them and they were not kept.
    SavedLinears rebuilt(const SavedMlp& kept, const Pass& pass, BackwardPart part) const;

    const ModelContext& context_;
    NormedBranch branch_;
    TwoLinears linears_;
};

}  // namespace gptrain
