// The feed-forward half of a block, for T tokens and F hidden features on this rank:
//
//   n = norm(r)                    [T, H]
//   u = n Wfc^T + bfc              [T, F]; swiglu [T, 2 F], packed as [fc | gate]
//   a = gelu(u), or silu(gate) fc  [T, F]
//   y = a Wproj^T + bproj          [T, H]
//
// The next norm adds y to the residual stream: r' = r + dropout(y).
#pragma once

#include "model/linear.h"
#include "model/norm.h"

namespace gptrain {

/// What forward keeps for backward. Backward rebuilds the tensors that are empty.
struct SavedMlp {
    SavedNorm norm;
    WithAmax n;  ///< [T, H]: norm output
    Tensor u;    ///< [T, F], swiglu [T, 2 F]: input of the activation function
    WithAmax a;  ///< [T, F]: output of the activation function
};

/// Gradients kept for a deferred W.
struct DeferredMlp {
    Tensor dy;  ///< [T, H]: gradient of y
    Tensor du;  ///< gradient of u, same shape
};

class Mlp {
public:
    Mlp(const ModelContext& context, const Parameters& parameters, std::int64_t layer);

    /// Allocates what `recompute` keeps of `tokens` tokens.
    SavedMlp reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const;
    DeferredMlp reserve_deferred(Arena& arena, std::int64_t tokens) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedMlp with_workspace(const SavedMlp& kept, const Tensor& stream, std::int64_t tokens) const;

    /// Computes n, u and a from the stream; `saved` must be complete.
    void forward_activation(Stream& stream, const SavedMlp& saved, const Pass& pass) const;
    /// Computes y, the branch that joins the stream.
    void forward_projection(Stream& stream, const SavedMlp& saved, const Tensor& y,
                            const Pass& pass) const;

    /// Turns grad.dy into the gradient of the stream before this half. `branch` is the dropout of
    /// the branch that the norm added to the stream. `deferred`, unless empty, keeps what W needs.
    void backward(const SavedMlp& kept, StreamGrad& grad, const Dropout& branch, const Pass& pass,
                  BackwardPart part, const DeferredMlp& deferred) const;

private:
    Activation activation() const { return context_.shape.activation; }
    /// Recomputes n and a if they were not kept.
    SavedMlp rebuilt(const SavedMlp& kept, std::int64_t tokens) const;

    const ModelContext& context_;
    std::int64_t layer_;
    NormLayer norm_;
    Linear fc_;
    Linear proj_;
};

}  // namespace gptrain
