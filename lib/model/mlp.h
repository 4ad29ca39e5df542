// The feed-forward half of a block.
#pragma once

#include "model/linear.h"
#include "model/norm.h"

namespace gptrain {

/// What is kept from forward to backward; tensors that are empty are not kept but rebuilt.
struct SavedMlp {
    SavedNorm norm;
    Measured n;  ///< [T, H]: norm output
    Tensor u;    ///< [T, F], swiglu [T, 2 F] as [fc | gate]: input of the activation function
    Measured a;  ///< [T, F]: its output
};

/// Gradients that a deferred W still needs.
struct DeferredMlp {
    Tensor dy;  ///< [T, H]: of the output
    Tensor du;  ///< as u
};

class Mlp {
public:
    Mlp(const ModelContext& context, const Parameters& parameters, std::int64_t layer);

    /// Memory in `arena` for what `recompute` keeps of `tokens` tokens.
    SavedMlp reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const;
    DeferredMlp reserve_deferred(Arena& arena, std::int64_t tokens) const;
    /// Gives what was not kept memory in the workspace; a stream that was not kept lies in
    /// `stream`.
    SavedMlp complete(const SavedMlp& kept, const Tensor& stream, std::int64_t tokens) const;

    /// From the stream to the activation function's output: all of `saved`, which is complete.
    void forward_inner(Stream& stream, const SavedMlp& saved, const Pass& pass) const;
    /// y = the branch's output, which joins the stream.
    void forward_outer(Stream& stream, const SavedMlp& saved, const Tensor& y,
                       const Pass& pass) const;

    /// From grad.dy to the gradient of the stream before this half. `branch`: the dropout of the
    /// branch that the norm added. `deferred` (not empty) keeps what W needs.
    void backward(const SavedMlp& kept, StreamGrad& grad, const Dropout& branch, const Pass& pass,
                  BackwardPart part, const DeferredMlp& deferred) const;

private:
    bool swiglu() const { return context_.shape.activation == Activation::swiglu; }
    /// n and a as they were in forward.
    SavedMlp rebuilt(const SavedMlp& kept, std::int64_t tokens) const;

    const ModelContext& context_;
    std::int64_t layer_;
    NormLayer norm_;
    Linear fc_;
    Linear proj_;
};

}  // namespace gptrain
