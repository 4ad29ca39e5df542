#include "model/block_half.h"

namespace gptrain {

BlockHalf::BlockHalf(const ModelContext& context, const Parameters& parameters,
                     const BlockId& block, const Names& names, const Sites& sites)
    : context_(context),
      layer_(block.layer),
      output_(sites.output),
      norm_(context, parameters, text(block.name, ".", names.norm)),
      in_(context, parameters, text(block.name, ".", names.in), Linear::Split::column,
          {sites.in, block.layer}),
      proj_(context, parameters, text(block.name, ".", names.proj), Linear::Split::row,
            {sites.proj, block.layer}) {}

SavedHalf BlockHalf::reserve_stream(Arena& arena, std::int64_t tokens) const {
    SavedHalf saved;
    saved.norm.r = arena.allocate(context_.compute, stream_shape(tokens));
    return saved;
}

SavedHalf BlockHalf::reserve(Arena& arena, std::int64_t tokens, const Kept& kept) const {
    const Shape stream = stream_shape(tokens);
    SavedHalf saved;
    saved.norm = norm_.reserve(arena, stream[0]);
    saved.norm.r = arena.allocate(context_.compute, stream);
    saved.u = arena.allocate(context_.compute, {tokens, u_width()});
    const Shape a = {tokens, a_width()};
    if (kept.inputs) {
        saved.n = in_.reserve_input(arena, stream);
        saved.a = proj_.reserve_input(arena, a);
    }
    if (kept.a_for_f && saved.a.values.empty()) {
        saved.a.values = arena.allocate(context_.compute, a);
    }
    return saved;
}

DeferredHalf BlockHalf::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.dy = arena.allocate(context_.compute, stream_shape(tokens)),
            .du = arena.allocate(context_.compute, {tokens, u_width()})};
}

SavedHalf BlockHalf::with_workspace(const SavedHalf& kept, const Tensor& stream,
                                    std::int64_t tokens) const {
    const Shape shape = stream_shape(tokens);
    SavedHalf saved;
    saved.norm = norm_.with_workspace(kept.norm, shape[0]);
    if (saved.norm.r.empty()) saved.norm.r = stream;
    saved.n = {memory(kept.n.values, shape), kept.n.amax, kept.n.columns8};
    saved.u = memory(kept.u, {tokens, u_width()});
    saved.a = {memory(kept.a.values, {tokens, a_width()}), kept.a.amax, kept.a.columns8};
    return saved;
}

void BlockHalf::forward_in(Stream& stream, const SavedHalf& saved, const Pass& pass,
                           const Tensor& gelu) const {
    norm_.forward(stream, saved.norm, saved.n, pass);
    in_.forward(saved.n, saved.u, pass, gelu);
}

void BlockHalf::forward_projection(Stream& stream, const SavedHalf& saved, const Tensor& y,
                                   const Pass& pass) const {
    proj_.forward(saved.a, y, pass);
    stream.y = y;
    stream.dropout = output_dropout(pass);
}

SavedHalf BlockHalf::with_n(SavedHalf saved, const Pass& pass, BackwardPart part) const {
    const bool needed = part != BackwardPart::inputs && in_.needs_input();
    if (!needed || saved.n.is_kept()) return saved;
    saved.n.values = context_.temporary(stream_shape(pass.batch.tokens()));
    norm_.rebuild(saved.norm, saved.n.values);
    return saved;
}

BlockHalf::Grads BlockHalf::start_backward(const StreamGrad& grad, const DeferredHalf& deferred,
                                           const Pass& pass, BackwardPart part) const {
    if (part == BackwardPart::inputs) context_.backend.copy(deferred.dy, grad.dy.values);
    return {.dy = part == BackwardPart::weights ? LinearOperand{deferred.dy, {}} : grad.dy,
            .du = {memory(deferred.du, {pass.batch.tokens(), u_width()}), {}}};
}

void BlockHalf::projection_backward(const SavedHalf& saved, const ProjectionGrads& grads,
                                    const Pass& pass, BackwardPart part) const {
    proj_.backward({.x = saved.a, .dy = grads.dy, .dx = grads.da, .gelu_input = grads.gelu_input},
                   pass, part);
}

void BlockHalf::finish_backward(const SavedHalf& saved, const LinearOperand& du, StreamGrad& grad,
                                const Dropout& branch_dropout, const Pass& pass,
                                BackwardPart part) const {
    const bool inputs = part != BackwardPart::weights;
    const Tensor dn = inputs ? context_.temporary(stream_shape(pass.batch.tokens())) : Tensor();
    in_.backward({.x = saved.n, .dy = du, .dx = dn, .gelu_input = {}}, pass, part);
    if (inputs) norm_.backward(dn, saved.norm, grad, branch_dropout, pass, true);
}

}  // namespace gptrain
