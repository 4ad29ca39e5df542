#include "model/mlp.h"

namespace gptrain {

Mlp::Mlp(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      branch_(context, parameters, block, second_norm(context.shape), DropoutSite::mlp_output),
      linears_(context, parameters, block,
               {.name = "mlp.fc_gate", .site = DropoutSite::lora_fc_gate},
               {.name = "mlp.proj", .site = DropoutSite::lora_mlp_proj}) {}

SavedMlp Mlp::reserve(Arena& arena, Recompute recompute, std::int64_t tokens,
                      const Tensor& r) const {
    if (recompute == Recompute::full) return {};
    const SavedBranch branch = branch_.reserve(arena, tokens, r);
    return {.branch = branch,
            .linears = linears_.reserve(
                arena, tokens,
                {.inputs = recompute == Recompute::none, .n = branch_.unnormed_input(branch)})};
}

SavedMlp Mlp::with_workspace(const SavedMlp& kept, const Tensor& stream, const Batch& batch,
                             bool for_backward) const {
    const SavedBranch branch = branch_.with_workspace(kept.branch, stream, batch.tokens());
    return {.branch = branch,
            .linears = linears_.with_workspace(kept.linears, batch.tokens(),
                                               {.n = branch_.unnormed_input(branch),
                                                .n8 = branch_.has_norm() && !for_backward,
                                                .a8 = !for_backward})};
}

void Mlp::forward(Stream& stream, const SavedMlp& saved, const Pass& pass) const {
    const auto& [kept_n, u, a] = saved.linears;
    {
        const ArenaFrame frame(context_.workspace());
        const LinearOperand n = linears_.normed_input(kept_n, branch_, pass.batch);
        branch_.enter(stream, saved.branch, n, pass);
        linears_.in().forward(n, u, pass, fuses() ? a.values : Tensor());
    }
    if (fuses()) return;
    context_.backend.run(ActivationForward{
        .activation = activation(), .u = u, .y = a.values, .amax = a.amax, .y8 = a.rows8});
}

void Mlp::project(Stream& stream, const SavedMlp& saved, const Tensor& y, const Pass& pass) const {
    linears_.proj().forward(saved.linears.a, branch_.output(saved.branch, y), pass);
    branch_.join(stream, saved.branch, y, pass);
}

SavedLinears Mlp::rebuilt(const SavedMlp& kept, const Pass& pass, BackwardPart part) const {
    SavedLinears saved = kept.linears;
    if (linears_.in().lacks(saved.n, part)) saved.n.values = branch_.rebuild(kept.branch);
    if (!linears_.proj().lacks(saved.a, part)) return saved;
    saved.a.values = context_.temporary(linears_.a_shape(pass.batch.tokens()));
    context_.backend.run(
        ActivationForward{.activation = activation(), .u = saved.u, .y = saved.a.values});
    return saved;
}

void Mlp::backward(const SavedMlp& kept, StreamGrad& grad, const Dropout& branch_dropout,
                   const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool inputs = part != BackwardPart::weights;
    const std::int64_t tokens = pass.batch.tokens();
    const SavedLinears saved = rebuilt(kept, pass, part);
    const LinearOperand dy = branch_.output_gradient(grad, kept.branch, deferred.dy, pass, part);
    LinearOperand du = {.values =
                            context_.kept_or_temporary(deferred.du, linears_.u_shape(tokens))};
    if (linears_.one_scale()) du.amax = grad.amax_pool.next();
    if (linears_.in().takes_dy8() && inputs)
        du.rows8 = context_.temporary_rows8(linears_.u_shape(tokens));
    Tensor da = du.values;
    const bool has_gate = gated(activation());
    if (has_gate && inputs) da = context_.temporary(linears_.a_shape(tokens));
    linears_.proj().backward({.x = saved.a,
                              .dy = dy,
                              .dx = da,
                              .activation_input = fuses() ? saved.u : Tensor(),
                              .du = fuses() && has_gate ? du.values : Tensor()},
                             pass, part);
    if (inputs && !fuses()) {
        context_.backend.run(ActivationBackward{.activation = activation(),
                                                .u = saved.u,
                                                .dy = da,
                                                .du = du.values,
                                                .amax = du.amax,
                                                .du8 = du.rows8});
    }
    branch_.input_gradient(linears_.input_gradient(saved, du, pass, part), kept.branch, grad,
                           branch_dropout, pass);
}

}  // namespace gptrain
