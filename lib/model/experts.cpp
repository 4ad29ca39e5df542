#include "model/experts.h"

#include "model/slices.h"

namespace gptrain {

Experts::Experts(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      branch_(context, parameters, block, "ln_2", DropoutSite::mlp_output),
      router_(context, parameters, block),
      fc_gate_(parameters.group(block.name + ".experts.fc_gate.weight")),
      proj_(parameters.group(block.name + ".experts.proj.weight")),
      gate_(parameters.group(block.name + ".shared.router.weight")) {
    if (!experts().shared) return;
    // It takes no adapter, and so draws nothing at these sites.
    shared_.emplace(context, parameters, block,
                    TwoLinears::Layer{.name = "shared.fc_gate", .site = DropoutSite::lora_fc_gate},
                    TwoLinears::Layer{.name = "shared.proj", .site = DropoutSite::lora_mlp_proj});
}

Shape Experts::u_shape(std::int64_t tokens) const {
    return {tokens * experts().per_token, input_width(activation(), experts().ffn_hidden_size)};
}

Shape Experts::a_shape(std::int64_t tokens) const {
    return {tokens * experts().per_token, experts().ffn_hidden_size};
}

SavedShared Experts::reserve_shared(Arena& arena, Recompute recompute, std::int64_t tokens) const {
    SavedShared saved;
    if (!has_shared()) return saved;
    saved.linears = shared_->reserve(arena, tokens, {.inputs = false});
    if (recompute == Recompute::none)
        saved.linears.a = shared_->proj().reserve_input(arena, shared_->a_shape(tokens));
    if (!gated_shared()) return saved;
    saved.gate = arena.allocate(DType::f32, {context_.stream_length(tokens), 1});
    saved.y = arena.allocate(context_.compute, context_.stream_shape(tokens));
    return saved;
}

SavedExperts Experts::reserve(Arena& arena, Recompute recompute, std::int64_t tokens) const {
    if (recompute == Recompute::full) return {};
    SavedExperts saved;
    saved.norm = branch_.norm().reserve(arena, tokens);
    saved.routing = router_.reserve(arena, context_.stream_length(tokens));
    saved.u = arena.allocate(context_.compute, u_shape(tokens));
    if (recompute == Recompute::none) {
        saved.n = arena.allocate(context_.compute, context_.stream_shape(tokens));
        saved.a = arena.allocate(context_.compute, a_shape(tokens));
    }
    saved.shared = reserve_shared(arena, recompute, tokens);
    return saved;
}

DeferredHalf Experts::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    DeferredHalf deferred = {.dy = arena.allocate(context_.compute, context_.stream_shape(tokens)),
                             .du = arena.allocate(context_.compute, u_shape(tokens))};
    if (has_shared())
        deferred.shared_du = arena.allocate(context_.compute, shared_->u_shape(tokens));
    return deferred;
}

SavedExperts Experts::with_workspace(const SavedExperts& kept, const Tensor& stream,
                                     const Batch& batch) const {
    const std::int64_t tokens = batch.tokens();
    SavedExperts saved = kept;
    saved.norm = branch_.norm().with_workspace(kept.norm, stream, tokens);
    saved.n = context_.kept_or_temporary(kept.n, context_.stream_shape(tokens));
    if (kept.routing.logits.empty())
        saved.routing = router_.reserve(context_.workspace(), context_.stream_length(tokens));
    saved.u = context_.kept_or_temporary(kept.u, u_shape(tokens));
    saved.a = context_.kept_or_temporary(kept.a, a_shape(tokens));
    if (!has_shared()) return saved;
    if (kept.shared.linears.u.empty())
        saved.shared = reserve_shared(context_.workspace(), Recompute::selective, tokens);
    // The shared expert reads the n of this half.
    saved.shared.linears.n.values = saved.n;
    saved.shared.linears = shared_->with_workspace(saved.shared.linears, tokens);
    return saved;
}

Experts::Rows Experts::rows_of(const SavedRouting& routing) const {
    Arena& workspace = context_.workspace();
    const Tensor chosen = gather_rows(context_, routing.chosen);
    const Rows rows = {.offsets = workspace.allocate(DType::i32, {experts().count + 1}),
                       .slots = workspace.allocate(DType::i32, {chosen.elements()}),
                       .places = workspace.allocate(DType::i32, chosen.shape()),
                       .weights = gather_rows(context_, routing.weights)};
    context_.backend.run(GroupByExpert{
        .chosen = chosen, .offsets = rows.offsets, .slots = rows.slots, .places = rows.places});
    return rows;
}

Tensor Experts::gather(const Tensor& x, const Rows& rows, bool weighted) const {
    const Tensor gathered = context_.temporary({rows.slots.elements(), x.size(1)});
    context_.backend.run(GatherRows{.x = gather_rows(context_, x),
                                    .slots = rows.slots,
                                    .offsets = rows.offsets,
                                    .per_token = experts().per_token,
                                    .rows = gathered,
                                    .weights = weighted ? rows.weights : Tensor()});
    return gathered;
}

void Experts::activate(const Tensor& u, const Tensor& a) const {
    context_.backend.run(ActivationForward{.activation = activation(), .u = u, .y = a});
}

void Experts::forward(Stream& stream, const SavedExperts& saved, const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    branch_.norm().forward(stream, saved.norm, {.values = saved.n}, pass);
    router_.forward(saved.n, saved.routing, pass);
    const Rows rows = rows_of(saved.routing);
    context_.backend.run(GroupedForward{.x = gather(saved.n, rows),
                                        .weight = fc_gate_.weight,
                                        .offsets = rows.offsets,
                                        .y = saved.u});
    activate(saved.u, saved.a);
    if (has_shared()) shared_forward(saved, pass);
}

void Experts::shared_forward(const SavedExperts& saved, const Pass& pass) const {
    const auto& [n, u, a] = saved.shared.linears;
    shared_->in().forward(n, u, pass);
    activate(u, a.values);
    if (!gated_shared()) return;
    context_.backend.run(
        LinearForward{.x = saved.n, .weight = gate_.weight, .bias = {}, .y = saved.shared.gate});
    // The gradient of the gate reads it.
    shared_->proj().forward(a, saved.shared.y, pass);
}

void Experts::project(Stream& stream, const SavedExperts& saved, const Tensor& y,
                      const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    const Rows rows = rows_of(saved.routing);
    const Tensor out = context_.temporary({rows.slots.elements(), context_.shape.hidden});
    context_.backend.run(
        GroupedForward{.x = saved.a, .weight = proj_.weight, .offsets = rows.offsets, .y = out});
    const Tensor part = allocate_whole(context_, y);
    context_.backend.run(
        CombineRows{.rows = out, .places = rows.places, .weights = rows.weights, .y = part});
    reduce_parts(context_, y, part).wait();
    if (has_shared()) add_shared(saved, y, pass);
    branch_.join(stream, y, pass);
}

void Experts::add_shared(const SavedExperts& saved, const Tensor& y, const Pass& pass) const {
    const Tensor added = context_.temporary(y.shape());
    if (gated_shared()) {
        context_.backend.run(
            GateRows{.x = saved.shared.y, .logits = saved.shared.gate, .y = added});
    } else {
        shared_->proj().forward(saved.shared.linears.a, added, pass);
    }
    context_.backend.run(Add{.x = y, .y = added});
}

SavedExperts Experts::rebuilt(const SavedExperts& kept, BackwardPart part) const {
    SavedExperts saved = kept;
    if (kept.n.empty()) saved.n = branch_.norm().rebuild(kept.norm);
    const auto rebuild = [&](const Tensor& u, Tensor& a, const Shape& shape) {
        if (!a.empty()) return;
        a = context_.temporary(shape);
        activate(u, a);
    };
    // The gradient of the weights of the choice reads a in B too.
    const std::int64_t rows = kept.u.size(0);
    rebuild(kept.u, saved.a, {rows, experts().ffn_hidden_size});
    if (!has_shared()) return saved;
    SavedLinears& shared = saved.shared.linears;
    shared.n.values = saved.n;
    if (part != BackwardPart::inputs)
        rebuild(shared.u, shared.a.values, shared_->a_shape(shared.u.size(0)));
    return saved;
}

Tensor Experts::weights_gradient(const SavedExperts& saved, const Rows& rows, const Tensor& dy,
                                 const Tensor& du) const {
    Backend& backend = context_.backend;
    const Tensor dweights = context_.temporary_f32(saved.routing.weights.shape());
    const ArenaFrame frame(context_.workspace());
    const Tensor da = context_.temporary(saved.a.shape());
    backend.run(GroupedInputGrad{
        .dy = gather(dy, rows), .weight = proj_.weight, .offsets = rows.offsets, .dx = da});
    const Tensor part = allocate_whole(context_, dweights);
    backend.run(WeightRows{
        .a = saved.a, .da = da, .places = rows.places, .weights = rows.weights, .dweights = part});
    Pending sum = reduce_parts(context_, dweights, part);
    backend.run(ActivationBackward{.activation = activation(), .u = saved.u, .dy = da, .du = du});
    sum.wait();
    return dweights;
}

void Experts::rows_gradient(const Rows& rows, const Tensor& du, const Tensor& dn) const {
    const ArenaFrame frame(context_.workspace());
    const Tensor dx = context_.temporary({rows.slots.elements(), dn.size(1)});
    context_.backend.run(
        GroupedInputGrad{.dy = du, .weight = fc_gate_.weight, .offsets = rows.offsets, .dx = dx});
    const Tensor part = allocate_whole(context_, dn);
    context_.backend.run(CombineRows{.rows = dx, .places = rows.places, .weights = {}, .y = part});
    reduce_parts(context_, dn, part).wait();
}

void Experts::weight_gradients(const SavedExperts& saved, const Rows& rows, const Tensor& dy,
                               const Tensor& du, const Pass& pass) const {
    if (!fc_gate_.trained() && !proj_.trained()) return;
    const auto add = [&](const GroupTensors& to, const Tensor& x, const Tensor& gradient) {
        if (!to.trained()) return;
        context_.backend.run(
            GroupedWeightGrad{.x = x,
                              .dy = gradient,
                              .offsets = rows.offsets,
                              .dweight = to.grad,
                              .accumulate = !(pass.first_gradients && to.storage.overwritten)});
    };
    {
        const ArenaFrame frame(context_.workspace());
        add(proj_, saved.a, gather(dy, rows, true));
    }
    const ArenaFrame frame(context_.workspace());
    add(fc_gate_, gather(saved.n, rows), du);
}

Tensor Experts::ungated(const SavedExperts& saved, const Tensor& dy, const Tensor& dn,
                        BackwardPart part) const {
    if (!gated_shared()) return dy;
    Backend& backend = context_.backend;
    const Tensor& logits = saved.shared.gate;
    const Tensor dout = context_.temporary(dy.shape());
    const ArenaFrame frame(context_.workspace());
    const Tensor dlogits = context_.temporary_f32(logits.shape());
    backend.run(GateRowsBackward{
        .x = saved.shared.y, .logits = logits, .dy = dy, .dx = dout, .dlogits = dlogits});
    if (part == BackwardPart::weights) return dout;
    const Tensor gradient = context_.in_compute_dtype(dlogits);
    backend.run(LinearInputGrad{
        .dy = gradient, .weight = gate_.weight, .gelu_input = {}, .dx = dn, .accumulate = true});
    if (gate_.trained())
        backend.run(
            LinearWeightGrad{.x = saved.n, .dy = gradient, .dweight = gate_.grad, .dbias = {}});
    return dout;
}

void Experts::shared_backward(const SavedExperts& saved, const Tensor& dy, const Tensor& dn,
                              const Pass& pass, BackwardPart part,
                              const DeferredHalf& deferred) const {
    if (!has_shared()) return;
    const ArenaFrame frame(context_.workspace());
    const bool inputs = part != BackwardPart::weights;
    const SavedLinears& linears = saved.shared.linears;
    const Tensor dout = ungated(saved, dy, dn, part);
    const Tensor du = context_.kept_or_temporary(deferred.shared_du, linears.u.shape());
    Tensor da;
    if (inputs) da = context_.temporary(shared_->a_shape(linears.u.size(0)));
    shared_->proj().backward({.x = linears.a, .dy = {.values = dout}, .dx = da, .gelu_input = {}},
                             pass, part);
    if (inputs)
        context_.backend.run(
            ActivationBackward{.activation = activation(), .u = linears.u, .dy = da, .du = du});
    const Tensor through = shared_->input_gradient(linears, {.values = du}, pass, part);
    if (inputs) context_.backend.run(Add{.x = dn, .y = through});
}

void Experts::backward(const SavedExperts& kept, StreamGrad& grad, const Dropout& branch_dropout,
                       const Pass& pass, BackwardPart part, const DeferredHalf& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool inputs = part != BackwardPart::weights;
    const SavedExperts saved = rebuilt(kept, part);
    const Rows rows = rows_of(saved.routing);
    const Tensor dy = branch_.output_gradient(grad, deferred.dy, part).values;
    const Tensor du = context_.kept_or_temporary(deferred.du, saved.u.shape());
    Tensor dn;
    if (inputs) {
        dn = context_.temporary(saved.n.shape());
        const Tensor dweights = weights_gradient(saved, rows, dy, du);
        rows_gradient(rows, du, dn);
        router_.backward(saved.n, saved.routing, dweights, dn, pass);
    }
    shared_backward(saved, dy, dn, pass, part, deferred);
    if (part != BackwardPart::inputs) weight_gradients(saved, rows, dy, du, pass);
    branch_.input_gradient(dn, kept.norm, grad, branch_dropout, pass);
}

}  // namespace gptrain
