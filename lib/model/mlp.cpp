#include "model/mlp.h"

namespace gptrain {

Mlp::Mlp(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      half_(context, parameters, block, {.norm = "ln_2", .in = "mlp.fc_gate", .proj = "mlp.proj"},
            {.output = DropoutSite::mlp_output,
             .in = DropoutSite::lora_fc_gate,
             .proj = DropoutSite::lora_mlp_proj}) {}

SavedHalf Mlp::reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const {
    if (recompute == Recompute::full) return {};
    const bool all = recompute == Recompute::none;
    return half_.reserve(arena, tokens, {.inputs = all});
}

void Mlp::forward_activation(Stream& stream, const SavedHalf& saved, const Pass& pass) const {
    if (fuses_gelu()) return half_.forward_in(stream, saved, pass, saved.a.values);
    half_.forward_in(stream, saved, pass);
    context_.backend.run(ActivationForward{
        .activation = activation(), .u = saved.u, .y = saved.a.values, .amax = saved.a.amax});
}

SavedHalf Mlp::rebuilt(const SavedHalf& kept, const Pass& pass, BackwardPart part) const {
    SavedHalf saved = half_.with_n(kept, pass, part);
    const bool needed = part != BackwardPart::inputs && half_.needs_a();
    if (!needed || kept.a.is_kept()) return saved;
    saved.a.values = context_.temporary({pass.batch.tokens(), half_.a_width()});
    context_.backend.run(
        ActivationForward{.activation = activation(), .u = saved.u, .y = saved.a.values});
    return saved;
}

void Mlp::backward(const SavedHalf& kept, StreamGrad& grad, const Dropout& branch_dropout,
                   const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool inputs = part != BackwardPart::weights;
    const SavedHalf saved = rebuilt(kept, pass, part);
    auto [dy, du] = half_.start_backward(grad, deferred, pass, part);
    if (half_.fp8()) du.amax = grad.amax_pool.next();
    Tensor da = du.values;
    if (gated(activation()) && inputs)
        da = context_.temporary({pass.batch.tokens(), half_.a_width()});
    half_.projection_backward(
        saved, {.dy = dy, .da = da, .gelu_input = fuses_gelu() ? saved.u : Tensor()}, pass, part);
    if (inputs && !fuses_gelu()) {
        context_.backend.run(ActivationBackward{
            .activation = activation(), .u = saved.u, .dy = da, .du = du.values, .amax = du.amax});
    }
    half_.finish_backward(saved, du, grad, branch_dropout, pass, part);
}

}  // namespace gptrain
