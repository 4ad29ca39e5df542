// What the halves of a block, attention and mlp, have in common, for T = B S tokens:
//
//   n = norm(r)              [T, H]
//   u = n Win^T + bin        [T, U]
//   a = f(u)                 [T, A]
//   y = a Wproj^T + bproj    [T, H]
//
// Each half has an f of its own. The next norm adds y to the residual stream: r' = r + dropout(y).
#pragma once

#include <string_view>

#include "model/linear.h"
#include "model/norm.h"

namespace gptrain {

/// What forward keeps for backward. Backward rebuilds n and a unless they are kept
/// (LinearOperand::is_kept).
struct SavedHalf {
    SavedNorm norm;
    LinearOperand n;  ///< [T, H]
    Tensor u;         ///< [T, U]
    LinearOperand a;  ///< [T, A]
};

/// Gradients kept for a deferred W.
struct DeferredHalf {
    Tensor dy;  ///< [T, H]
    Tensor du;  ///< [T, U]
};

class BlockHalf {
public:
    /// Names of parameters in a block, such as "ln_1", "attn.qkv" and "attn.proj".
    struct Names {
        std::string_view norm;
        std::string_view in;
        std::string_view proj;
    };
    /// What is dropped: y, and what the adapters of `in` and `proj` read.
    struct Sites {
        DropoutSite output;
        DropoutSite in;
        DropoutSite proj;
    };
    BlockHalf(const ModelContext& context, const Parameters& parameters, const BlockId& block,
              const Names& names, const Sites& sites);

    std::int64_t u_width() const { return in_.outputs(); }
    std::int64_t a_width() const { return proj_.inputs(); }
    /// True if its GEMMs are FP8.
    bool fp8() const { return in_.fp8(); }
    /// True if GELU and its gradient can be epilogues of the GEMMs: nothing is added in between.
    bool takes_epilogues() const {
        return !fp8() && !in_.int8() && !in_.has_adapter() && !proj_.has_adapter();
    }
    Dropout output_dropout(const Pass& pass) const {
        return pass.dropout(context_, output_, layer_);
    }

    /// Allocates the stream that enters the norm, all that full recomputation needs.
    SavedHalf reserve_stream(Arena& arena, std::int64_t tokens) const;
    /// What to keep in addition to the stream, the norm's statistics and u.
    struct Kept {
        bool inputs;           ///< n and a as the gradients of the weights read them
        bool a_for_f = false;  ///< the values of a, which the backward of f reads
    };
    /// Allocates what is kept.
    SavedHalf reserve(Arena& arena, std::int64_t tokens, const Kept& kept) const;
    DeferredHalf reserve_deferred(Arena& arena, std::int64_t tokens) const;
    /// Fills the gaps of `kept` with workspace memory; `stream` stands in for a residual stream
    /// that was not kept.
    SavedHalf with_workspace(const SavedHalf& kept, const Tensor& stream,
                             std::int64_t tokens) const;

    /// Computes n and u from the stream. `gelu` as in Linear::forward.
    void forward_in(Stream& stream, const SavedHalf& saved, const Pass& pass,
                    const Tensor& gelu = {}) const;
    /// Computes y, the branch that joins the stream, from a.
    void forward_projection(Stream& stream, const SavedHalf& saved, const Tensor& y,
                            const Pass& pass) const;

    // Backward runs with_n, start_backward, projection_backward, f's own, finish_backward.

    /// True if the gradient of the projection's weight needs a.
    bool needs_a() const { return proj_.needs_input(); }
    /// Recomputes n in the workspace if the part needs it and it was not kept.
    SavedHalf with_n(SavedHalf saved, const Pass& pass, BackwardPart part) const;
    struct Grads {
        LinearOperand dy;  ///< [T, H]
        LinearOperand du;  ///< [T, U]
    };
    /// The gradient of y, and memory for that of u. `deferred`, unless empty, keeps both for W.
    Grads start_backward(const StreamGrad& grad, const DeferredHalf& deferred, const Pass& pass,
                         BackwardPart part) const;
    /// da = the gradient of a, or with `gelu_input` that of the GELU's input.
    struct ProjectionGrads {
        LinearOperand dy;
        Tensor da;
        Tensor gelu_input = {};
    };
    void projection_backward(const SavedHalf& saved, const ProjectionGrads& grads, const Pass& pass,
                             BackwardPart part) const;
    /// Turns du into the gradient of the stream before this half. `branch_dropout` is the dropout
    /// of the branch that the norm added to the stream.
    void finish_backward(const SavedHalf& saved, const LinearOperand& du, StreamGrad& grad,
                         const Dropout& branch_dropout, const Pass& pass, BackwardPart part) const;

private:
    /// [T, H] of this rank's part of the stream.
    Shape stream_shape(std::int64_t tokens) const {
        return {context_.stream_length(tokens), context_.shape.hidden};
    }
    Tensor memory(const Tensor& kept, const Shape& shape) const {
        return kept_or_temporary(kept, context_, context_.compute, shape);
    }

    const ModelContext& context_;
    std::int64_t layer_;
    DropoutSite output_;
    NormLayer norm_;
    Linear in_;
    Linear proj_;
};

}  // namespace gptrain
