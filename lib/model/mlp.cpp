#include "model/mlp.h"

namespace gptrain {

Mlp::Mlp(const ModelContext& context, const Parameters& parameters, std::int64_t layer)
    : context_(context),
      layer_(layer),
      norm_(context, parameters, text("h.", layer, ".ln_2")),
      fc_(context, parameters, text("h.", layer, ".mlp.fc_gate"), Linear::Split::column),
      proj_(context, parameters, text("h.", layer, ".mlp.proj"), Linear::Split::row) {}

SavedMlp Mlp::reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const {
    SavedMlp saved;
    if (recompute == Recompute::full) return saved;
    const Shape stream = {context_.stream_length(tokens), context_.shape.hidden};
    saved.norm = norm_.reserve(arena, stream[0]);
    saved.norm.r = arena.allocate(context_.compute, stream);
    saved.u = arena.allocate(context_.compute, {tokens, fc_.outputs()});
    if (recompute == Recompute::selective) return saved;
    saved.n.values = arena.allocate(context_.compute, stream);
    saved.a.values = arena.allocate(context_.compute, {tokens, proj_.inputs()});
    return saved;
}

DeferredMlp Mlp::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.dy = arena.allocate(context_.compute,
                                 {context_.stream_length(tokens), context_.shape.hidden}),
            .du = arena.allocate(context_.compute, {tokens, fc_.outputs()})};
}

SavedMlp Mlp::with_workspace(const SavedMlp& kept, const Tensor& stream,
                             std::int64_t tokens) const {
    const std::int64_t stream_tokens = context_.stream_length(tokens);
    const auto memory = [&](const Tensor& tensor, const Shape& shape) {
        return kept_or_temporary(tensor, context_, context_.compute, shape);
    };
    SavedMlp saved;
    saved.norm = norm_.with_workspace(kept.norm, stream_tokens);
    if (saved.norm.r.empty()) saved.norm.r = stream;
    saved.n = {memory(kept.n.values, {stream_tokens, context_.shape.hidden}), kept.n.amax};
    saved.u = memory(kept.u, {tokens, fc_.outputs()});
    saved.a = {memory(kept.a.values, {tokens, proj_.inputs()}), kept.a.amax};
    return saved;
}

void Mlp::forward_activation(Stream& stream, const SavedMlp& saved, const Pass& pass) const {
    norm_.forward(stream, saved.norm, saved.n, pass);
    // Fuses the GELU into the GEMM's epilogue, except in FP8.
    if (activation() == Activation::gelu && !fc_.fp8()) {
        fc_.forward(saved.n, saved.u, saved.a.values);
        return;
    }
    fc_.forward(saved.n, saved.u);
    context_.backend.run(ActivationForward{
        .activation = activation(), .u = saved.u, .y = saved.a.values, .amax = saved.a.amax});
}

void Mlp::forward_projection(Stream& stream, const SavedMlp& saved, const Tensor& y,
                             const Pass& pass) const {
    proj_.forward(saved.a, y);
    stream.y = y;
    stream.dropout = pass.dropout(context_, DropoutSite::mlp_output, layer_);
}

SavedMlp Mlp::rebuilt(const SavedMlp& kept, std::int64_t tokens) const {
    SavedMlp saved = with_workspace(kept, {}, tokens);
    if (kept.n.values.empty()) norm_.rebuild(saved.norm, saved.n.values);
    if (kept.a.values.empty()) {
        context_.backend.run(
            ActivationForward{.activation = activation(), .u = saved.u, .y = saved.a.values});
    }
    return saved;
}

void Mlp::backward(const SavedMlp& kept, StreamGrad& grad, const Dropout& branch, const Pass& pass,
                   BackwardPart part, const DeferredMlp& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const std::int64_t tokens = pass.batch.tokens();
    const bool inputs = part != BackwardPart::weights;
    const SavedMlp saved = part == BackwardPart::inputs ? kept : rebuilt(kept, tokens);
    if (part == BackwardPart::inputs) context_.backend.copy(deferred.dy, grad.dy.values);
    const WithAmax dy = inputs ? grad.dy : WithAmax{deferred.dy, {}};
    const WithAmax du = {
        kept_or_temporary(deferred.du, context_, context_.compute, {tokens, fc_.outputs()}),
        fc_.fp8() ? grad.amax_pool.next() : Tensor()};

    // Fuses the GELU's gradient into the GEMM's epilogue, except in FP8.
    const bool fused = activation() == Activation::gelu && !proj_.fp8();
    Tensor da = du.values;
    if (gated(activation()) && inputs) da = context_.temporary({tokens, proj_.inputs()});
    proj_.backward({.x = saved.a, .dy = dy, .dx = da, .gelu_input = fused ? saved.u : Tensor()},
                   part);
    if (inputs && !fused) {
        context_.backend.run(ActivationBackward{
            .activation = activation(), .u = saved.u, .dy = da, .du = du.values, .amax = du.amax});
    }
    const Tensor dn =
        inputs ? context_.temporary({context_.stream_length(tokens), context_.shape.hidden})
               : Tensor();
    fc_.backward({.x = saved.n, .dy = du, .dx = dn, .gelu_input = {}}, part);
    if (inputs) norm_.backward(dn, saved.norm, grad, branch, pass, true);
}

}  // namespace gptrain
