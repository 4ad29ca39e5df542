#include "model/experts.h"

#include "model/quantised_weight.h"

namespace gptrain {

Experts::Experts(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      branch_(context, parameters, block, second_norm(context.shape), DropoutSite::mlp_output),
      router_(context, parameters, block),
      fc_gate_(parameters.group(block.name + ".experts.fc_gate.weight")),
      fc_gate_bias_(parameters.group(block.name + ".experts.fc_gate.bias")),
      proj_(parameters.group(block.name + ".experts.proj.weight")),
      proj_bias_(parameters.group(block.name + ".experts.proj.bias")),
      gate_(parameters.group(block.name + ".shared.router.weight")) {
    if (!experts().shared) return;
    // It takes no adapter, and so draws nothing at these sites.
    shared_.emplace(context, parameters, block,
                    TwoLinears::Layer{.name = "shared.fc_gate", .site = DropoutSite::lora_fc_gate},
                    TwoLinears::Layer{.name = "shared.proj", .site = DropoutSite::lora_mlp_proj});
}

Tensor Experts::added_bias() const {
    const Mesh& mesh = context_.mesh;
    const bool splits_features = mesh.experts().size() == 1;
    return splits_features && mesh.tp().rank() > 0 ? Tensor() : proj_bias_.weight;
}

Shape Experts::u_shape(std::int64_t tokens) const {
    return {ExpertRows::count(context_, tokens),
            input_width(activation(), experts().ffn_hidden_size)};
}

Shape Experts::a_shape(std::int64_t tokens) const {
    return {ExpertRows::count(context_, tokens), experts().ffn_hidden_size};
}

Tensor Experts::reserve_arrived(Arena& arena, std::int64_t tokens) const {
    if (context_.mesh.experts().size() == 1) return {};
    return arena.allocate(context_.compute,
                          {ExpertRows::count(context_, tokens), context_.shape.hidden});
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

SavedExperts Experts::reserve(Arena& arena, Recompute recompute, std::int64_t tokens,
                              const Tensor& r) const {
    if (recompute == Recompute::full) return {};
    SavedExperts saved;
    saved.branch = branch_.reserve(arena, tokens, r);
    saved.n = branch_.unnormed_input(saved.branch);
    saved.routing = router_.reserve(arena, context_.stream_length(tokens));
    saved.order = ExpertRows::reserve(context_, arena, tokens);
    saved.u = arena.allocate(context_.compute, u_shape(tokens));
    if (recompute == Recompute::none) {
        if (saved.n.empty())
            saved.n = arena.allocate(context_.compute, context_.stream_shape(tokens));
        saved.a = arena.allocate(context_.compute, a_shape(tokens));
        saved.arrived = reserve_arrived(arena, tokens);
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
                                     const Batch& batch, bool /*for_backward*/) const {
    const std::int64_t tokens = batch.tokens();
    SavedExperts saved = kept;
    saved.branch = branch_.with_workspace(kept.branch, stream, tokens);
    if (saved.n.empty()) saved.n = branch_.unnormed_input(saved.branch);
    saved.n = context_.kept_or_temporary(saved.n, context_.stream_shape(tokens));
    if (kept.routing.logits.empty()) {
        saved.routing = router_.reserve(context_.workspace(), context_.stream_length(tokens));
        saved.order = ExpertRows::reserve(context_, context_.workspace(), tokens);
        saved.arrived = reserve_arrived(context_.workspace(), tokens);
    }
    saved.u = context_.kept_or_temporary(kept.u, u_shape(tokens));
    saved.a = context_.kept_or_temporary(kept.a, a_shape(tokens));
    if (!has_shared()) return saved;
    if (kept.shared.linears.u.empty())
        saved.shared = reserve_shared(context_.workspace(), Recompute::selective, tokens);
    // The shared expert reads the n of this half.
    saved.shared.linears.n.values = saved.n;
    saved.shared.linears = shared_->with_workspace(saved.shared.linears, tokens, {});
    return saved;
}

std::vector<TokenRange> Experts::slices(const SavedExperts& saved, const Pass& pass) const {
    return ExpertRows::slices(context_, saved.routing.chosen.size(0), pass);
}

ExpertRows Experts::rows_of(const SavedExperts& saved, const TokenRange& range) const {
    return {context_, saved.routing, saved.order, range};
}

void Experts::activate(const Tensor& u, const Tensor& a) const {
    context_.backend.run(ActivationForward{.activation = activation(), .u = u, .y = a});
}

void Experts::multiply(const ExpertRows& rows, const GroupTensors& weight, const Tensor& bias,
                       const Tensor& x, const Tensor& y) const {
    const ArenaFrame frame(context_.workspace());
    context_.backend.run(
        GroupedForward{.x = x,
                       .weight = weight_of_experts(context_, weight, rows.offsets(), x.size(0)),
                       .offsets = rows.offsets(),
                       .y = y,
                       .bias = bias,
                       .expected = rows.expected()});
}

void Experts::input_gradient(const ExpertRows& rows, const GroupTensors& weight, const Tensor& dy,
                             const Tensor& dx) const {
    const ArenaFrame frame(context_.workspace());
    context_.backend.run(
        GroupedInputGrad{.dy = dy,
                         .weight = weight_of_experts(context_, weight, rows.offsets(), dy.size(0)),
                         .offsets = rows.offsets(),
                         .dx = dx,
                         .expected = rows.expected()});
}

void Experts::compute(const ExpertRows& rows, const Tensor& arrived, const Tensor& u,
                      const Tensor& a) const {
    const ArenaFrame frame(context_.workspace());
    multiply(rows, fc_gate_, fc_gate_bias_.weight, rows.by_expert(arrived), u);
    activate(u, a);
}

Pending Experts::project_rows(const ExpertRows& rows, const Tensor& a, const Tensor& y) const {
    const Tensor out = context_.temporary({a.size(0), context_.shape.hidden});
    multiply(rows, proj_, added_bias(), a, out);
    return rows.back(out, y, true);
}

void Experts::forward_alone(const SavedExperts& saved, const TokenRange& range, const Tensor& y,
                            const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    const ExpertRows rows = rows_of(saved, range);
    rows.place(pass);
    ArrivingRowsOfExperts arriving = rows.send(saved.n.slice(0, range.begin, range.count));
    arriving.pending.wait();
    compute(rows, arriving.rows, saved.u, saved.a);
    project_rows(rows, saved.a, y.slice(0, range.begin, range.count)).wait();
}

void Experts::forward(Stream& stream, const SavedExperts& saved, const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    branch_.enter(stream, saved.branch, {.values = saved.n}, pass);
    router_.forward(saved.n, saved.routing, pass);
    const std::vector<TokenRange> ranges = slices(saved, pass);
    if (ranges.size() > 1) {
        if (has_shared()) shared_forward(saved, pass);
        return;
    }
    const ExpertRows rows = rows_of(saved, ranges.front());
    rows.place(pass);
    ArrivingRowsOfExperts arriving = rows.send(saved.n, saved.arrived);
    if (has_shared()) shared_forward(saved, pass);
    arriving.pending.wait();
    compute(rows, arriving.rows, saved.u, saved.a);
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
    const Tensor& z = branch_.output(saved.branch, y);
    const std::vector<TokenRange> ranges = slices(saved, pass);
    Pending arriving;
    if (ranges.size() == 1) {
        arriving = project_rows(rows_of(saved, ranges.front()), saved.a, z);
    } else {
        for (const TokenRange& range : ranges)
            forward_alone(saved, range, z, pass);
    }
    const Tensor shared = has_shared() ? shared_output(saved, pass) : Tensor();
    arriving.wait();
    if (has_shared()) context_.backend.run(Add{.x = z, .y = shared});
    branch_.join(stream, saved.branch, y, pass);
}

Tensor Experts::shared_output(const SavedExperts& saved, const Pass& pass) const {
    Tensor output = context_.temporary(saved.n.shape());
    if (gated_shared()) {
        context_.backend.run(
            GateRows{.x = saved.shared.y, .logits = saved.shared.gate, .y = output});
    } else {
        shared_->proj().forward(saved.shared.linears.a, output, pass);
    }
    return output;
}

SavedExperts Experts::rebuilt(const SavedExperts& kept, BackwardPart part, bool sliced) const {
    SavedExperts saved = kept;
    if (kept.n.empty()) saved.n = branch_.rebuild(kept.branch);
    const auto rebuild = [&](const Tensor& u, Tensor& a, const Shape& shape) {
        if (!a.empty()) return;
        a = context_.temporary(shape);
        activate(u, a);
    };
    // The gradient of the weights of the choice reads a in B too.
    if (!sliced) rebuild(kept.u, saved.a, {kept.u.size(0), experts().ffn_hidden_size});
    if (!has_shared()) return saved;
    SavedLinears& shared = saved.shared.linears;
    shared.n.values = saved.n;
    if (part != BackwardPart::inputs)
        rebuild(shared.u, shared.a.values, shared_->a_shape(shared.u.size(0)));
    return saved;
}

Pending Experts::hidden_gradient(const ExpertRows& rows, const Tensor& dy, const Tensor& a,
                                 const Tensor& u, const Tensor& du, const Tensor& dweights) const {
    const Tensor da = context_.temporary(a.shape());
    {
        const ArenaFrame frame(context_.workspace());
        input_gradient(rows, proj_, rows.by_expert(dy), da);
    }
    Pending weights =
        rows.weigh({.a = a, .da = da, .dweights = dweights, .bias = added_bias(), .dy = dy});
    context_.backend.run(
        ActivationBackward{.activation = activation(), .u = u, .dy = da, .du = du});
    return weights;
}

void Experts::weight_gradients(const ExpertRows& rows, const WeightOperands& operands,
                               bool accumulate) const {
    const auto add = [&](const GroupTensors& to, const Tensor& x, const Tensor& gradient) {
        context_.backend.run(GroupedWeightGrad{.x = x,
                                               .dy = gradient,
                                               .offsets = rows.offsets(),
                                               .dweight = to.grad,
                                               .accumulate = accumulate || !to.storage.overwritten,
                                               .expected = rows.expected()});
    };
    const auto add_bias = [&](const GroupTensors& to, const Tensor& gradient) {
        if (!to.trained()) return;
        context_.backend.run(
            GroupedBiasGrad{.dy = gradient, .offsets = rows.offsets(), .dbias = to.grad});
    };
    if (proj_.trained() || proj_bias_.trained()) {
        const ArenaFrame frame(context_.workspace());
        const Tensor dy = rows.by_expert(operands.dy, true);
        if (proj_.trained()) add(proj_, operands.a, dy);
        add_bias(proj_bias_, dy);
    }
    if (fc_gate_.trained()) {
        const ArenaFrame frame(context_.workspace());
        add(fc_gate_, rows.by_expert(operands.n), operands.du);
    }
    add_bias(fc_gate_bias_, operands.du);
}

void Experts::backward_rows(const RowsBackward& args, const Pass& pass, BackwardPart part) const {
    const ArenaFrame frame(context_.workspace());
    const SavedExperts& saved = args.saved;
    const auto of_range = [&](const Tensor& x) {
        return x.empty() ? x : x.slice(0, args.range.begin, args.range.count);
    };
    const ExpertRows rows = rows_of(saved, args.range);
    if (!args.alone) rows.place(pass);
    ArrivingRowsOfExperts dy = rows.send(of_range(args.dy));
    const bool trained =
        fc_gate_.trained() || proj_.trained() || fc_gate_bias_.trained() || proj_bias_.trained();
    const bool adds = part != BackwardPart::inputs && trained;
    ArrivingRowsOfExperts n;
    if (args.alone && !saved.arrived.empty()) {
        n.rows = saved.arrived;
    } else if (!args.alone || adds) {
        n = rows.send(of_range(saved.n));
    }
    Tensor u = saved.u;
    Tensor a = saved.a;
    if (!args.alone) {
        u = context_.temporary(saved.u.shape());
        a = context_.temporary({u.size(0), experts().ffn_hidden_size});
        n.pending.wait();
        compute(rows, n.rows, u, a);
    }
    dy.pending.wait();
    const Tensor du = context_.kept_or_temporary(args.du, u.shape());
    Pending weights;
    Pending inputs;
    if (part != BackwardPart::weights || !args.alone)
        weights = hidden_gradient(rows, dy.rows, a, u, du, of_range(args.dweights));
    if (part != BackwardPart::weights) {
        const Tensor dx = context_.temporary({u.size(0), args.dn.size(1)});
        input_gradient(rows, fc_gate_, du, dx);
        inputs = rows.back(dx, of_range(args.dn), false);
    }
    n.pending.wait();
    if (adds)
        weight_gradients(rows, {.n = n.rows, .dy = dy.rows, .a = a, .du = du},
                         !(pass.first_gradients && args.first));
    weights.wait();
    inputs.wait();
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
    shared_->proj().backward({.x = linears.a, .dy = {.values = dout}, .dx = da}, pass, part);
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
    const std::vector<TokenRange> ranges = slices(kept, pass);
    const bool sliced = ranges.size() > 1;
    const SavedExperts saved = rebuilt(kept, part, sliced);
    const Tensor dy = branch_.output_gradient(grad, kept.branch, deferred.dy, pass, part).values;
    Tensor dn;
    if (inputs) dn = context_.temporary(saved.n.shape());
    // W with slices computes it again, with all that leads to du.
    Tensor dweights;
    if (inputs || sliced) dweights = context_.temporary_f32(saved.routing.weights.shape());
    for (const TokenRange& range : ranges) {
        backward_rows({.saved = saved,
                       .range = range,
                       .first = range.begin == 0,
                       .alone = !sliced,
                       .dy = dy,
                       .du = sliced ? Tensor() : deferred.du,
                       .dn = dn,
                       .dweights = dweights},
                      pass, part);
    }
    if (inputs) router_.backward(saved.n, saved.routing, dweights, dn, pass);
    shared_backward(saved, dy, dn, pass, part, deferred);
    branch_.input_gradient(dn, kept.branch, grad, branch_dropout, pass);
}

}  // namespace gptrain
