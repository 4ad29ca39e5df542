// A half of a block without its function f, for T = B S tokens:
//
//   n = norm(r), or r itself      [T, H]
//   z = f(n)                      [T, H]
//   y = post_norm(z), or z itself [T, H]
//
// with a norm at either place or at both (NormPlacement). The next half adds y to the residual
// stream: r' = r + dropout(y).
#pragma once

#include <optional>
#include <string_view>

#include "model/norm.h"

namespace gptrain {

/// Gradients that a half keeps from B to W. They take the place of what only B reads: dy that of
/// SavedBranch::free_after_input_gradients, and du that of u.
struct DeferredHalf {
    Tensor dy;              ///< [T, H]: of z
    Tensor du;              ///< [T, U]: the gradient within f that W reads
    Tensor shared_du = {};  ///< the same of a shared expert
};

/// The tensors that forward keeps of a branch.
struct SavedBranch {
    SavedNorm norm;  ///< r, with statistics if a norm reads it
    SavedNorm post;  ///< z; empty without a norm of it

    /// The tensor that W does not read: without a norm of r, r is the input of a linear layer.
    const Tensor& free_after_input_gradients() const { return norm.rstd.empty() ? post.r : norm.r; }
};

/// The name of the norm that the second half of a block reads.
inline std::string_view second_norm(const ModelShape& shape) {
    return shape.parallel_residual == ParallelResidual::one_norm ? "ln_1" : "ln_2";
}

class NormedBranch {
public:
    /// `norm`: the name of the norm in its block, such as "ln_1". `output`: what drops y.
    NormedBranch(const ModelContext& context, const Parameters& parameters, const BlockId& block,
                 std::string_view norm, DropoutSite output);

    Dropout output_dropout(const Pass& pass) const {
        return pass.dropout(context_, output_, layer_);
    }
    /// True if a norm writes n.
    bool has_norm() const { return norm_.has_value(); }
    bool has_post_norm() const { return post_norm_.has_value(); }

    /// Allocates what backward reads of a batch of `tokens` tokens. `r`, unless empty, is kept
    /// elsewhere.
    SavedBranch reserve(Arena& arena, std::int64_t tokens, const Tensor& r) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedBranch with_workspace(const SavedBranch& kept, const Tensor& stream,
                               std::int64_t tokens) const;
    /// r if that is n, else empty.
    Tensor unnormed_input(const SavedBranch& saved) const {
        return norm_ ? Tensor() : saved.norm.r;
    }

    /// Computes r from the stream, and n.
    void enter(Stream& stream, const SavedBranch& saved, const LinearOperand& n,
               const Pass& pass) const;
    /// Recomputes n bit for bit in the workspace; for a branch with a norm of r.
    Tensor rebuild(const SavedBranch& saved) const { return norm_->rebuild(saved.norm); }
    /// Where f writes z, which becomes y.
    const Tensor& output(const SavedBranch& saved, const Tensor& y) const {
        return has_post_norm() ? saved.post.r : y;
    }
    /// Computes y from z and hands it to the stream, which the branch has entered.
    void join(Stream& stream, const SavedBranch& saved, const Tensor& y, const Pass& pass) const;

    // Backward runs output_gradient, the backward of f, input_gradient.

    /// The gradient of z. `deferred`, unless empty, keeps it for W.
    LinearOperand output_gradient(const StreamGrad& grad, const SavedBranch& saved,
                                  const Tensor& deferred, const Pass& pass,
                                  BackwardPart part) const;
    /// Turns dn into the gradient of the stream before this half; nothing to do for W, which has no
    /// dn. `branch_dropout` is the dropout of the branch that the stream added before this half.
    void input_gradient(const Tensor& dn, const SavedBranch& saved, StreamGrad& grad,
                        const Dropout& branch_dropout, const Pass& pass) const;

private:
    const ModelContext& context_;
    std::int64_t layer_;
    DropoutSite output_;
    std::optional<NormLayer> norm_;
    std::optional<NormLayer> post_norm_;
};

}  // namespace gptrain
