// A transformer block on the residual stream x [T, H], with norms as in GPT-2:
//
//   x = x + dropout(attention(norm_1(x)))
//   x = x + dropout(feed_forward(norm_2(x)))
//
// or behind the halves, or on both sides of them (normed_branch.h). With ParallelResidual both
// halves read the same x:
//
//   x = x + dropout(attention(norm_1(x))) + dropout(feed_forward(norm_2(x)))
//
// feed_forward is one mlp, or experts (ModelVariant::has_experts).
// The norm that follows a branch computes its sum, so the block's last sum is left to the next
// block or the head.
#pragma once

#include <type_traits>
#include <variant>

#include "model/attention.h"
#include "model/experts.h"
#include "model/mlp.h"

namespace gptrain {

/// The tensors that forward keeps of a block: attention.branch.norm.r only with full recomputation.
struct SavedBlock {
    SavedAttention attention;
    std::variant<SavedMlp, SavedExperts> feed_forward;
    Tensor amaxes;  ///< fp32 [4]: storage of both halves' amaxes, with one_scale()
};

struct DeferredBlock {
    DeferredHalf attention;
    DeferredHalf feed_forward;
};

/// The tensors of a block that only B reads: reusable, once its B is done, for the deferred
/// gradients of another block. Requires that the outputs of norms and activation functions are
/// kept; otherwise W would rebuild them from these tensors.
/// Halves that read one stream need one more such tensor: feed_forward.dy is then empty.
DeferredBlock free_after_input_gradients(const SavedBlock& saved);
/// to = from
void copy(Backend& backend, const DeferredBlock& to, const DeferredBlock& from);

class Block {
public:
    Block(const ModelContext& context, const Parameters& parameters, const BlockId& block);

    /// For profiles.
    const std::string& name() const { return name_; }

    SavedBlock reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                       std::int64_t seq_length) const;
    DeferredBlock reserve_deferred(Arena& arena, std::int64_t tokens) const;
    /// Fills the gaps of `deferred`.
    DeferredBlock reserve_deferred(Arena& arena, std::int64_t tokens, DeferredBlock deferred) const;
    KvCache reserve_cache(Arena& arena, std::int64_t sequences, std::int64_t capacity) const {
        return attention_.reserve_cache(arena, sequences, capacity);
    }

    /// Moves the stream through the block and fills `kept`; what it lacks is computed in the
    /// workspace.
    void forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                 const Pass& pass, KvCache* cache = nullptr) const;

    /// Moves the gradient back through the block. `branch_dropout` is the dropout of the branch
    /// that enters the block with the stream.
    void backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch_dropout,
                  const Pass& pass, BackwardPart part, const DeferredBlock& deferred) const;

    bool has_experts() const { return std::holds_alternative<Experts>(feed_forward_); }
    /// True if its GEMMs with weights are FP8 with one scale for each matrix.
    bool one_scale() const { return attention_.one_scale(); }
    /// True if backward of its second half reads rows8 of grad.dy; and if that of any half does.
    bool takes_dy8() const;
    bool any_takes_dy8() const { return takes_dy8() || (!is_parallel() && attention_.takes_dy8()); }
    /// How many of the gradient's amaxes `backward` takes.
    static constexpr std::int64_t grad_amax_count = 4;

    /// Dropout of the branch that leaves the block.
    Dropout output_dropout(const Pass& pass) const;

private:
    /// f(the half after attention)
    auto feed_forward(const auto& f) const { return std::visit(f, feed_forward_); }
    /// The tensors of that half, which has this type; none if none were reserved.
    template <class Half>
    static auto saved_by(const Half& /*half*/, const SavedBlock& saved) {
        using Saved = std::conditional_t<std::is_same_v<Half, Mlp>, SavedMlp, SavedExperts>;
        const Saved* const held = std::get_if<Saved>(&saved.feed_forward);
        return held != nullptr ? *held : Saved();
    }
    static std::variant<Mlp, Experts> make_feed_forward(const ModelContext& context,
                                                        const Parameters& parameters,
                                                        const BlockId& block);
    /// Allocates the amaxes of `saved`, with one_scale().
    void reserve_amaxes(SavedBlock& saved, Arena& arena) const;
    /// `kept` with its amaxes set to 0, in the workspace if it has none.
    SavedBlock with_cleared_amaxes(SavedBlock kept) const;
    /// True if both halves read the stream that enters the block.
    bool is_parallel() const { return context_.shape.parallel_residual != ParallelResidual::none; }
    /// Adds what has left the second half to what has left the first: the stream's new branch,
    /// with dropout applied.
    void add_branch(Stream& stream, const Stream& second, const Pass& pass) const;
    void parallel_backward(const SavedBlock& saved, StreamGrad& grad, const Dropout& branch_dropout,
                           const Pass& pass, BackwardPart part,
                           const DeferredBlock& deferred) const;
    /// Recomputes all activations from the stream that enters the block, bit for bit.
    SavedBlock recomputed(const SavedBlock& kept, const Pass& pass) const;

    const ModelContext& context_;
    std::string name_;
    Attention attention_;
    std::variant<Mlp, Experts> feed_forward_;
};

}  // namespace gptrain
