#include "model/two_linears.h"

namespace gptrain {

TwoLinears::TwoLinears(const ModelContext& context, const Parameters& parameters,
                       const BlockId& block, const Layer& in, const Layer& proj)
    : context_(context),
      in_(context, parameters, text(block.name, ".", in.name), Linear::Split::column,
          {in.site, block.layer}),
      proj_(context, parameters, text(block.name, ".", proj.name), Linear::Split::row,
            {proj.site, block.layer}) {}

SavedLinears TwoLinears::reserve(Arena& arena, std::int64_t tokens, const Kept& kept) const {
    SavedLinears saved;
    saved.u = arena.allocate(context_.compute, u_shape(tokens));
    saved.n.values = kept.n;
    if (kept.inputs) {
        if (kept.n.empty()) saved.n = in_.reserve_input(arena, context_.stream_shape(tokens));
        saved.a = proj_.reserve_input(arena, a_shape(tokens));
    }
    if (kept.a_for_g && saved.a.values.empty())
        saved.a.values = arena.allocate(context_.compute, a_shape(tokens));
    return saved;
}

SavedLinears TwoLinears::with_workspace(const SavedLinears& kept, std::int64_t tokens,
                                        const Filled& filled) const {
    SavedLinears saved = kept;
    if (saved.n.values.empty()) saved.n.values = filled.n;
    if (!filled.n8 || !in_.takes_x8() || in_.has_adapter())
        saved.n.values = context_.kept_or_temporary(saved.n.values, context_.stream_shape(tokens));
    saved.u = context_.kept_or_temporary(kept.u, u_shape(tokens));
    if (filled.a8) saved.a = proj_.with_rows8(saved.a, a_shape(tokens));
    if (saved.a.rows8.empty() || proj_.has_adapter())
        saved.a.values = context_.kept_or_temporary(kept.a.values, a_shape(tokens));
    return saved;
}

DeferredHalf TwoLinears::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.dy = arena.allocate(context_.compute, context_.stream_shape(tokens)),
            .du = arena.allocate(context_.compute, u_shape(tokens))};
}

Tensor TwoLinears::input_gradient(const SavedLinears& saved, const LinearOperand& du,
                                  const Pass& pass, BackwardPart part) const {
    Tensor dn;
    if (part != BackwardPart::weights)
        dn = context_.temporary(context_.stream_shape(pass.batch.tokens()));
    in_.backward({.x = saved.n, .dy = du, .dx = dn}, pass, part);
    return dn;
}

}  // namespace gptrain
