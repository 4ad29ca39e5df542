// The feed-forward half of a block (block_half.h), for F hidden features on this rank:
//
//   u = fc         [T, F], or with swiglu [fc | gate] [T, 2 F]
//   a = gelu(u)    [T, F], or silu(gate) fc
#pragma once

#include "model/block_half.h"

namespace gptrain {

class Mlp {
public:
    Mlp(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    /// The norm and the two linear layers of this half.
    const BlockHalf& half() const { return half_; }

    /// Allocates what `recompute` keeps of `tokens` tokens.
    SavedHalf reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const;

    /// Computes n, u and a from the stream; `saved` must be complete.
    void forward_activation(Stream& stream, const SavedHalf& saved, const Pass& pass) const;

    /// Turns grad.dy into the gradient of the stream before this half. `branch_dropout` is the
    /// dropout of the branch that the norm added to the stream. `deferred`, unless empty, keeps
    /// what W needs.
    void backward(const SavedHalf& kept, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const;

private:
    Activation activation() const { return context_.shape.activation; }
    /// GEMMs do the GELU and its gradient in their epilogues.
    bool fuses_gelu() const { return activation() == Activation::gelu && half_.takes_epilogues(); }
    /// Recomputes n and a if the part needs them and they were not kept.
    SavedHalf rebuilt(const SavedHalf& kept, const Pass& pass, BackwardPart part) const;

    const ModelContext& context_;
    BlockHalf half_;
};

}  // namespace gptrain
