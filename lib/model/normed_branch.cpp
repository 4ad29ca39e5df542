#include "model/normed_branch.h"

namespace gptrain {

NormedBranch::NormedBranch(const ModelContext& context, const Parameters& parameters,
                           const BlockId& block, std::string_view norm, DropoutSite output)
    : context_(context), layer_(block.layer), output_(output) {
    const NormPlacement placement = context.shape.norm_placement;
    const std::string name = text(block.name, ".", norm);
    if (placement != NormPlacement::after) norm_.emplace(context, parameters, name);
    if (placement == NormPlacement::after) post_norm_.emplace(context, parameters, name);
    if (placement == NormPlacement::both) post_norm_.emplace(context, parameters, name + "_post");
}

SavedBranch NormedBranch::reserve(Arena& arena, std::int64_t tokens, const Tensor& r) const {
    SavedBranch saved;
    if (norm_) {
        saved.norm = norm_->reserve(arena, tokens, r);
    } else {
        saved.norm.r = arena.allocate(context_.compute, context_.stream_shape(tokens));
    }
    if (post_norm_) saved.post = post_norm_->reserve(arena, tokens);
    return saved;
}

SavedBranch NormedBranch::with_workspace(const SavedBranch& kept, const Tensor& stream,
                                         std::int64_t tokens) const {
    SavedBranch saved = kept;
    if (norm_) {
        saved.norm = norm_->with_workspace(kept.norm, stream, tokens);
    } else if (kept.norm.r.empty()) {
        saved.norm.r = stream;
    }
    if (post_norm_) {
        const Tensor z = context_.kept_or_temporary(kept.post.r, context_.stream_shape(tokens));
        saved.post = post_norm_->with_workspace(kept.post, z, tokens);
    }
    return saved;
}

void NormedBranch::enter(Stream& stream, const SavedBranch& saved, const LinearOperand& n,
                         const Pass& pass) const {
    if (norm_) return norm_->forward(stream, saved.norm, n, pass);
    if (!stream.y.empty()) {
        context_.backend.run(ResidualAdd{.r = stream.r,
                                         .y = stream.y,
                                         .dropout = stream.dropout,
                                         .r_out = saved.norm.r,
                                         .seq_length = pass.stream_length(context_)});
    }
    stream = {.r = saved.norm.r, .y = {}, .dropout = {}};
}

void NormedBranch::join(Stream& stream, const SavedBranch& saved, const Tensor& y,
                        const Pass& pass) const {
    if (post_norm_) {
        Stream own = {.r = saved.post.r, .y = {}, .dropout = {}};
        post_norm_->forward(own, saved.post, {.values = y}, pass);
    }
    stream.y = y;
    stream.dropout = output_dropout(pass);
}

LinearOperand NormedBranch::output_gradient(const StreamGrad& grad, const SavedBranch& saved,
                                            const Tensor& deferred, const Pass& pass,
                                            BackwardPart part) const {
    if (part == BackwardPart::weights) return {.values = deferred};
    if (post_norm_) {
        StreamGrad own;
        own.dr = context_.kept_or_temporary(deferred, saved.post.r.shape());
        post_norm_->backward(grad.dy.values, saved.post, own, {}, pass, false);
        return own.dy;
    }
    if (part == BackwardPart::inputs) context_.backend.copy(deferred, grad.dy.values);
    return grad.dy;
}

void NormedBranch::input_gradient(const Tensor& dn, const SavedBranch& saved, StreamGrad& grad,
                                  const Dropout& branch_dropout, const Pass& pass) const {
    if (dn.empty()) return;
    if (norm_) return norm_->backward(dn, saved.norm, grad, branch_dropout, pass, true);
    context_.backend.run(Add{.x = grad.dr, .y = dn});
    start_branch_gradient(context_, grad, branch_dropout, pass);
}

}  // namespace gptrain
