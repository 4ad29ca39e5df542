#include "model/attention.h"

namespace gptrain {

Attention::Attention(const ModelContext& context, const Parameters& parameters,
                     const BlockId& block)
    : context_(context),
      layer_(block.layer),
      branch_(context, parameters, block, "ln_1", DropoutSite::attention_output),
      linears_(context, parameters, block, {.name = "attn.qkv", .site = DropoutSite::lora_qkv},
               {.name = "attn.proj", .site = DropoutSite::lora_attn_proj}),
      q_norm_(parameters.group(block.name + ".attn.q_norm.weight")),
      k_norm_(parameters.group(block.name + ".attn.k_norm.weight")),
      sinks_(parameters.group(block.name + ".attn.sinks")) {}

SavedAttention Attention::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                                  std::int64_t seq_length) const {
    const std::int64_t tokens = sequences * seq_length;
    SavedAttention saved;
    if (recompute == Recompute::full) {
        saved.branch.norm.r = arena.allocate(context_.compute, context_.stream_shape(tokens));
        return saved;
    }
    const bool all = recompute == Recompute::none;
    saved.branch = branch_.reserve(arena, tokens, {});
    saved.linears = linears_.reserve(
        arena, tokens, {.inputs = all, .n = branch_.unnormed_input(saved.branch), .a_for_g = true});
    saved.lse = arena.allocate(DType::f32, {sequences, context_.shape.heads, seq_length});
    if (normalises_rows()) saved.squares = arena.allocate(DType::f32, {2, tokens});
    // all_to_all leaves the exchanged q, k and v there.
    const bool exchanged =
        shares_sequence() && context_.context_method == ContextMethod::all_to_all;
    if (normalises() && (all || exchanged))
        saved.normalised = arena.allocate(context_.compute, linears_.u_shape(tokens));
    return saved;
}

KvCache Attention::reserve_cache(Arena& arena, std::int64_t sequences,
                                 std::int64_t capacity) const {
    // A CPU reads the keys of a head faster in one piece. A GPU's bulk copies need strides that
    // grow from heads to tokens to sequences.
    const bool by_heads = context_.backend.is_host();
    const std::int64_t groups = context_.shape.groups;
    const std::int64_t dim = context_.shape.head_dim;
    const auto reserve = [&] {
        if (!by_heads) return arena.allocate(context_.compute, {sequences, capacity, groups, dim});
        return arena.allocate(context_.compute, {sequences, groups, capacity, dim}).transpose(1, 2);
    };
    return {.k = reserve(), .v = reserve()};
}

SavedAttention Attention::with_workspace(const SavedAttention& kept, const Tensor& stream,
                                         const Batch& batch, bool for_backward) const {
    const Shape lse = {batch.sequences(), context_.shape.heads, batch.seq_length()};
    const Shape u = linears_.u_shape(batch.tokens());
    const SavedBranch branch = branch_.with_workspace(kept.branch, stream, batch.tokens());
    SavedLinears linears = linears_.with_workspace(
        kept.linears, batch.tokens(),
        {.n = branch_.unnormed_input(branch), .n8 = branch_.has_norm() && !for_backward});
    if (writes_rows8() && !for_backward)
        linears.a = linears_.proj().with_rows8(linears.a, linears_.a_shape(batch.tokens()));
    return {.branch = branch,
            .linears = linears,
            .lse = kept.lse.empty() ? context_.temporary_f32(lse) : kept.lse,
            .normalised = normalises() ? context_.kept_or_temporary(kept.normalised, u) : Tensor(),
            .squares = normalises_rows() && kept.squares.empty()
                           ? context_.temporary_f32({2, batch.tokens()})
                           : kept.squares};
}

Tensor Attention::heads_of(const Tensor& packed, const Batch& batch) const {
    return packed.view({batch.sequences(), batch.seq_length(),
                        context_.shape.heads + 2 * context_.shape.groups, context_.shape.head_dim});
}

PackedQkv Attention::split_rows(const Tensor& packed) const {
    const std::int64_t n = context_.shape.heads;
    const std::int64_t g = context_.shape.groups;
    return split_qkv(packed.view({packed.size(0), n + 2 * g, context_.shape.head_dim}), n, g);
}

Tensor Attention::output_heads(const Tensor& o, const Batch& batch) const {
    return o.view(
        {batch.sequences(), batch.seq_length(), context_.shape.heads, context_.shape.head_dim});
}

void Attention::rotate(const Tensor& packed, const Batch& batch, bool inverse,
                       const Tensor& amax) const {
    const ModelShape& shape = context_.shape;
    if (!shape.rotates(layer_)) return;
    const Tensor q_and_k = heads_of(packed, batch).slice(2, 0, shape.heads + shape.groups);
    context_.backend.run(Rope{.x = q_and_k.slice(3, 0, shape.rotary_dims()),
                              .positions = batch.positions,
                              .theta = shape.rope_theta_of(layer_),
                              .scaling = shape.rope_scaling_of(layer_),
                              .inverse = inverse,
                              .amax = amax});
}

void Attention::normalise_and_rotate(const SavedAttention& saved, const Batch& batch) const {
    if (normalises()) {
        normalise(saved);
        context_.backend.copy(split_rows(saved.normalised).v, split_rows(saved.linears.u).v);
    }
    rotate(saved.qkv(), batch, false);
}

SavedAttention Attention::with_normalised(SavedAttention kept, const Batch& batch) const {
    if (!normalises() || !kept.normalised.empty()) return kept;
    kept.normalised = context_.temporary(linears_.u_shape(batch.tokens()));
    normalise_and_rotate(kept, batch);
    return kept;
}

void Attention::inputs_backward(const SavedAttention& saved, const LinearOperand& dqkv,
                                const Batch& batch) const {
    rotate(dqkv.values, batch, true, dqkv.amax);
    if (normalises()) norm_backward(saved, dqkv.values);
}

AttentionForward Attention::local_args(const PackedQkv& heads, const SavedAttention& saved,
                                       const Pass& pass) const {
    return {.q = heads.q,
            .k = heads.k,
            .v = heads.v,
            .o = output_heads(saved.linears.a.values, pass.batch),
            .lse = saved.lse,
            .q_begin = first_query(pass.batch),
            .first_visible = first_visible(pass.batch),
            .window = window(pass.batch),
            .dropout = pass.dropout(context_, DropoutSite::attention, layer_),
            .softcap = softcap(),
            .alibi = alibi(),
            .amax = one_op_attends() ? saved.linears.a.amax : Tensor(),
            .o8 = saved.linears.a.rows8};
}

ContextForward Attention::context_args(const SavedAttention& saved, const Pass& pass) const {
    const Batch& batch = pass.batch;
    return {.qkv = heads_of(saved.qkv(), batch),
            .o = output_heads(saved.linears.a.values, batch),
            .lse = saved.lse,
            .first_query = first_query(batch),
            .first_visible = first_visible(batch),
            .window = window(batch),
            .dropout = pass.dropout(context_, DropoutSite::attention, layer_),
            .softcap = softcap(),
            .alibi = alibi(),
            .sinks = sinks_.weight};
}

void Attention::attend(const AttentionForward& args) const {
    context_.backend.run(args);
    if (sinks_.present())
        context_.backend.run(SinkForward{.sinks = sinks_.weight, .o = args.o, .lse = args.lse});
}

void Attention::attend(AttentionForward args, KvCache& cache) const {
    const std::int64_t added = args.k.size(1);
    context_.backend.copy(cache.k.slice(1, cache.length, added), args.k);
    context_.backend.copy(cache.v.slice(1, cache.length, added), args.v);
    args.q_begin = cache.length;
    cache.length += added;
    args.k = cache.k.slice(1, 0, cache.length);
    args.v = cache.v.slice(1, 0, cache.length);
    attend(args);
}

void Attention::attend(const AttentionForward& args, const KvCache& cache,
                       std::span<const TextRows> texts) const {
    const std::int64_t heads = args.q.size(2);
    const Tensor lse = args.lse.view({args.lse.elements()});
    for (const TextRows& text : texts) {
        const auto rows = [&](const Tensor& x) { return x.slice(1, text.begin, text.count); };
        const std::int64_t capacity = text.before + text.count;
        KvCache own = {.k = cache.k.slice(1, text.cache_begin, capacity),
                       .v = cache.v.slice(1, text.cache_begin, capacity),
                       .length = text.before};
        AttentionForward part = args;
        part.q = rows(args.q);
        part.k = rows(args.k);
        part.v = rows(args.v);
        part.o = rows(args.o);
        part.lse =
            lse.slice(0, text.begin * heads, text.count * heads).view({1, heads, text.count});
        if (!args.first_visible.empty()) part.first_visible = rows(args.first_visible);
        attend(part, own);
    }
}

void Attention::local_attention_forward(const SavedAttention& saved, const Pass& pass,
                                        KvCache* cache) const {
    const AttentionForward args = local_args(split(saved.qkv(), pass.batch), saved, pass);
    if (cache == nullptr) {
        attend(args);
    } else if (pass.texts.empty()) {
        attend(args, *cache);
    } else {
        attend(args, *cache, pass.texts);
    }
}

void Attention::forward(Stream& stream, const SavedAttention& saved, const Pass& pass,
                        KvCache* cache) const {
    const auto& [kept_n, u, a] = saved.linears;
    {
        const ArenaFrame frame(context_.workspace());
        const LinearOperand n = linears_.normed_input(kept_n, branch_, pass.batch);
        branch_.enter(stream, saved.branch, n, pass);
        linears_.in().forward(n, u, pass);
    }
    if (normalises_rows()) sum_squares(saved);
    normalise_and_rotate(saved, pass.batch);
    if (shares_sequence()) {
        context_attention_forward(context_.context_method, context_args(saved, pass),
                                  context_ranks());
    } else {
        local_attention_forward(saved, pass, cache);
    }
    if (one_scale() && !one_op_attends())
        context_.backend.run(UpdateAmax{.x = a.values, .amax = a.amax});
}

void Attention::project(Stream& stream, const SavedAttention& saved, const Tensor& y,
                        const Pass& pass) const {
    linears_.proj().forward(saved.linears.a, branch_.output(saved.branch, y), pass);
    branch_.join(stream, saved.branch, y, pass);
}

void Attention::attention_backward(const SavedAttention& saved, const Tensor& d_o,
                                   const LinearOperand& dqkv, const Pass& pass) const {
    if (shares_sequence()) {
        const ContextForward forward = context_args(saved, pass);
        context_attention_backward(context_.context_method,
                                   {.forward = forward,
                                    .d_o = output_heads(d_o, pass.batch),
                                    .dqkv = dqkv.values.view(forward.qkv.shape()),
                                    .dsinks = sinks_.grad},
                                   context_ranks());
    } else {
        const PackedQkv grads = split(dqkv.values, pass.batch);
        const AttentionForward forward = local_args(split(saved.qkv(), pass.batch), saved, pass);
        const Tensor d_heads = output_heads(d_o, pass.batch);
        context_.backend.run(AttentionBackward{.forward = forward,
                                               .d_o = d_heads,
                                               .dq = grads.q,
                                               .dk = grads.k,
                                               .dv = grads.v,
                                               .amax = dqkv.amax,
                                               .amax_of_dv = context_.shape.rotates(layer_)});
        if (sinks_.trained()) {
            context_.backend.run(SinkBackward{.sinks = sinks_.weight,
                                              .o = forward.o,
                                              .lse = forward.lse,
                                              .d_o = d_heads,
                                              .dsinks = sinks_.grad});
        }
    }
    inputs_backward(saved, dqkv, pass.batch);
}

void Attention::backward(const SavedAttention& kept, StreamGrad& grad,
                         const Dropout& branch_dropout, const Pass& pass, BackwardPart part,
                         const DeferredHalf& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool inputs = part != BackwardPart::weights;
    const std::int64_t tokens = pass.batch.tokens();
    SavedAttention saved = kept;
    if (linears_.in().lacks(kept.linears.n, part))
        saved.linears.n.values = branch_.rebuild(kept.branch);
    if (inputs) saved = with_normalised(saved, pass.batch);
    const LinearOperand dy = branch_.output_gradient(grad, saved.branch, deferred.dy, pass, part);
    LinearOperand du = {.values =
                            context_.kept_or_temporary(deferred.du, linears_.u_shape(tokens))};
    if (inputs && ops_find_gradient_amax()) du.amax = grad.amax_pool.next();
    const Tensor d_o = inputs ? context_.temporary(linears_.a_shape(tokens)) : Tensor();
    linears_.proj().backward({.x = saved.linears.a, .dy = dy, .dx = d_o}, pass, part);
    if (inputs) attention_backward(saved, d_o, du, pass);
    branch_.input_gradient(linears_.input_gradient(saved.linears, du, pass, part), saved.branch,
                           grad, branch_dropout, pass);
}

}  // namespace gptrain
