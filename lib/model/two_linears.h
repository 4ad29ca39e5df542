// The function of a half with two linear layers, attention or mlp, for T = B S tokens:
//
//   u = n Win^T + bin        [T, U]
//   a = g(u)                 [T, A]
//   y = a Wproj^T + bproj    [T, H]
//
// Attention and mlp each have a g.
#pragma once

#include <string_view>

#include "model/linear.h"
#include "model/normed_branch.h"

namespace gptrain {

/// The tensors that forward keeps for backward, which rebuilds n and a unless they are kept
/// (LinearOperand::is_kept).
struct SavedLinears {
    LinearOperand n;  ///< [T, H]
    Tensor u;         ///< [T, U]
    LinearOperand a;  ///< [T, A]
};

class TwoLinears {
public:
    struct Layer {
        std::string_view name;  ///< in the block, such as "attn.qkv"
        DropoutSite site;       ///< what drops the input of its adapter
    };
    TwoLinears(const ModelContext& context, const Parameters& parameters, const BlockId& block,
               const Layer& in, const Layer& proj);

    const Linear& in() const { return in_; }
    const Linear& proj() const { return proj_; }
    Shape u_shape(std::int64_t tokens) const { return {tokens, in_.outputs()}; }
    Shape a_shape(std::int64_t tokens) const { return {tokens, proj_.inputs()}; }
    /// True if its GEMMs are FP8 with one scale for each matrix (Linear::one_scale).
    bool one_scale() const { return in_.one_scale(); }
    /// True if an activation function and its gradient can be epilogues of the GEMMs: nothing is
    /// added in between.
    bool takes_epilogues() const {
        return !in_.fp8() && !in_.quantised() && !in_.has_adapter() && !proj_.has_adapter();
    }

    /// The tensors to keep in addition to u.
    struct Kept {
        bool inputs;           ///< n and a as the gradients of the weights read them
        Tensor n = {};         ///< n, if it is kept elsewhere
        bool a_for_g = false;  ///< the values of a, which the backward of g reads
    };
    /// Allocates what is kept.
    SavedLinears reserve(Arena& arena, std::int64_t tokens, const Kept& kept) const;
    DeferredHalf reserve_deferred(Arena& arena, std::int64_t tokens) const;
    struct Filled {
        Tensor n = {};  ///< n, if it is elsewhere
        /// Only the layers read n, or a, and the op that writes it can write rows8 in its place.
        bool n8 = false;
        bool a8 = false;
    };
    /// Fills the gaps of `kept` with workspace memory: rows8 of a where `filled` allows it, and
    /// values unless rows8 are enough. Those of n are in normed_input.
    SavedLinears with_workspace(const SavedLinears& kept, std::int64_t tokens,
                                const Filled& filled) const;
    /// n for the norm of `branch` to write and the first layer to read.
    LinearOperand normed_input(const LinearOperand& n, const NormedBranch& branch,
                               const Batch& batch) const {
        return branch.has_norm() ? in_.with_rows8(n, context_.stream_shape(batch.tokens())) : n;
    }

    /// dn from du, in the workspace; empty if only weights are asked for (W).
    Tensor input_gradient(const SavedLinears& saved, const LinearOperand& du, const Pass& pass,
                          BackwardPart part) const;

private:
    const ModelContext& context_;
    Linear in_;
    Linear proj_;
};

}  // namespace gptrain
