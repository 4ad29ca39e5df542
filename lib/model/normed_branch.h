// A half of a block without its function f, for T = B S tokens:
//
//   n = norm(r)              [T, H]
//   y = f(n)                 [T, H]
//
// The next norm adds y to the residual stream: r' = r + dropout(y).
#pragma once

#include <string_view>

#include "model/norm.h"

namespace gptrain {

/// Gradients that a half keeps from B to W. They take the place of what only B reads: dy that of r,
/// and du that of u.
struct DeferredHalf {
    Tensor dy;              ///< [T, H]
    Tensor du;              ///< [T, U]: the gradient within f that W reads
    Tensor shared_du = {};  ///< the same of a shared expert
};

class NormedBranch {
public:
    /// `norm`: the name of the norm in its block, such as "ln_1". `output`: what drops y.
    NormedBranch(const ModelContext& context, const Parameters& parameters, const BlockId& block,
                 std::string_view norm, DropoutSite output)
        : context_(context),
          layer_(block.layer),
          output_(output),
          norm_(context, parameters, text(block.name, ".", norm)) {}

    const NormLayer& norm() const { return norm_; }
    Dropout output_dropout(const Pass& pass) const {
        return pass.dropout(context_, output_, layer_);
    }
    /// Hands y to the stream, which the norm has read.
    void join(Stream& stream, const Tensor& y, const Pass& pass) const {
        stream.y = y;
        stream.dropout = output_dropout(pass);
    }

    // Backward runs output_gradient, the backward of f, input_gradient.

    /// The gradient of y. `deferred`, unless empty, keeps it for W.
    LinearOperand output_gradient(const StreamGrad& grad, const Tensor& deferred,
                                  BackwardPart part) const {
        if (part == BackwardPart::weights) return {.values = deferred};
        if (part == BackwardPart::inputs) context_.backend.copy(deferred, grad.dy.values);
        return grad.dy;
    }
    /// Turns dn into the gradient of the stream before this half; nothing to do for W, which has no
    /// dn. `branch_dropout` is the dropout of the branch that the norm added to the stream.
    void input_gradient(const Tensor& dn, const SavedNorm& saved, StreamGrad& grad,
                        const Dropout& branch_dropout, const Pass& pass) const {
        if (!dn.empty()) norm_.backward(dn, saved, grad, branch_dropout, pass, true);
    }

private:
    const ModelContext& context_;
    std::int64_t layer_;
    DropoutSite output_;
    NormLayer norm_;
};

}  // namespace gptrain
