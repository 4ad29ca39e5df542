#include "model/attention.h"

namespace gptrain {

Attention::Attention(const ModelContext& context, const Parameters& parameters, std::int64_t layer)
    : context_(context),
      layer_(layer),
      norm_(context, parameters, text("h.", layer, ".ln_1")),
      qkv_(context, parameters, text("h.", layer, ".attn.qkv"), Linear::Split::column),
      proj_(context, parameters, text("h.", layer, ".attn.proj"), Linear::Split::row) {}

SavedAttention Attention::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                                  std::int64_t seq_length) const {
    const std::int64_t tokens = sequences * seq_length;
    const Shape stream = {context_.stream_length(tokens), context_.shape.hidden};
    SavedAttention saved;
    saved.norm.r = arena.allocate(context_.compute, stream);
    if (recompute == Recompute::full) return saved;
    const Tensor r = saved.norm.r;
    saved.norm = norm_.reserve(arena, stream[0]);
    saved.norm.r = r;
    saved.qkv = arena.allocate(context_.compute, {tokens, qkv_.outputs()});
    saved.o.values = arena.allocate(context_.compute, {tokens, proj_.inputs()});
    saved.lse = arena.allocate(DType::f32, {sequences, context_.shape.heads, seq_length});
    if (recompute == Recompute::selective) return saved;
    saved.n.values = arena.allocate(context_.compute, stream);
    return saved;
}

DeferredAttention Attention::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.dy = arena.allocate(context_.compute,
                                 {context_.stream_length(tokens), context_.shape.hidden}),
            .dqkv = arena.allocate(context_.compute, {tokens, qkv_.outputs()})};
}

KvCache Attention::reserve_cache(Arena& arena, std::int64_t sequences,
                                 std::int64_t capacity) const {
    const Shape shape = {sequences, capacity, context_.shape.groups, context_.shape.head_dim};
    return {.k = arena.allocate(context_.compute, shape),
            .v = arena.allocate(context_.compute, shape)};
}

SavedAttention Attention::with_workspace(const SavedAttention& kept, const Tensor& stream,
                                         const Batch& batch) const {
    const std::int64_t tokens = batch.tokens();
    const std::int64_t stream_tokens = context_.stream_length(tokens);
    const auto memory = [&](const Tensor& tensor, const Shape& shape) {
        return kept_or_temporary(tensor, context_, context_.compute, shape);
    };
    SavedAttention saved;
    saved.norm = norm_.with_workspace(kept.norm, stream_tokens);
    if (saved.norm.r.empty()) saved.norm.r = stream;
    saved.n = {memory(kept.n.values, {stream_tokens, context_.shape.hidden}), kept.n.amax};
    saved.qkv = memory(kept.qkv, {tokens, qkv_.outputs()});
    saved.o = {memory(kept.o.values, {tokens, proj_.inputs()}), kept.o.amax};
    saved.lse = kept_or_temporary(kept.lse, context_, DType::f32,
                                  {batch.sequences(), context_.shape.heads, batch.seq_length()});
    return saved;
}

Attention::Heads Attention::split(const Tensor& packed, const Batch& batch) const {
    const std::int64_t n = context_.shape.heads;
    const std::int64_t g = context_.shape.groups;
    const Tensor heads =
        packed.view({batch.sequences(), batch.seq_length(), n + 2 * g, context_.shape.head_dim});
    return {.q = heads.slice(2, 0, n), .k = heads.slice(2, n, g), .v = heads.slice(2, n + g, g)};
}

Tensor Attention::output_heads(const Tensor& o, const Batch& batch) const {
    return o.view(
        {batch.sequences(), batch.seq_length(), context_.shape.heads, context_.shape.head_dim});
}

void Attention::rotate(const Tensor& packed, const Batch& batch, bool inverse) const {
    if (context_.shape.position_embedding != PositionEmbedding::rope) return;
    const std::int64_t n = context_.shape.heads;
    const std::int64_t g = context_.shape.groups;
    const Tensor heads =
        packed.view({batch.sequences(), batch.seq_length(), n + 2 * g, context_.shape.head_dim});
    context_.backend.run(Rope{.x = heads.slice(2, 0, n + g),
                              .positions = batch.positions,
                              .theta = context_.shape.rope_theta,
                              .inverse = inverse});
}

AttentionForward Attention::local_args(const Heads& heads, const SavedAttention& saved,
                                       const Pass& pass) const {
    return {.q = heads.q,
            .k = heads.k,
            .v = heads.v,
            .o = output_heads(saved.o.values, pass.batch),
            .lse = saved.lse,
            .first_visible = pass.batch.first_visible,
            .dropout = pass.dropout(context_, DropoutSite::attention, layer_)};
}

ContextForward Attention::context_args(const SavedAttention& saved, const Pass& pass) const {
    const Batch& batch = pass.batch;
    const std::int64_t heads = context_.shape.heads + 2 * context_.shape.groups;
    return {.qkv = saved.qkv.view(
                {batch.sequences(), batch.seq_length(), heads, context_.shape.head_dim}),
            .o = output_heads(saved.o.values, batch),
            .lse = saved.lse,
            .first_visible = batch.first_visible,
            .dropout = pass.dropout(context_, DropoutSite::attention, layer_)};
}

void Attention::forward_attention(Stream& stream, const SavedAttention& saved, const Pass& pass,
                                  KvCache* cache) const {
    norm_.forward(stream, saved.norm, saved.n, pass);
    qkv_.forward(saved.n, saved.qkv);
    rotate(saved.qkv, pass.batch, false);
    if (shares_sequence()) {
        return context_attention_forward(context_.context_method, context_args(saved, pass),
                                         context_ranks());
    }
    AttentionForward args = local_args(split(saved.qkv, pass.batch), saved, pass);
    if (cache != nullptr) {
        const std::int64_t added = pass.batch.seq_length();
        context_.backend.copy(cache->k.slice(1, cache->length, added), args.k);
        context_.backend.copy(cache->v.slice(1, cache->length, added), args.v);
        args.q_begin = cache->length;
        cache->length += added;
        args.k = cache->k.slice(1, 0, cache->length);
        args.v = cache->v.slice(1, 0, cache->length);
    }
    context_.backend.run(args);
    // A separate pass, because the attention kernels have no registers to spare for it. In a block
    // with H = 4096 and 8192 tokens, this pass and the one over dqkv read 8 H bytes per token, 0.27
    // GB: 56 us at 4.8 TB/s, out of about 8 ms.
    if (fp8()) context_.backend.run(UpdateAmax{.x = saved.o.values, .amax = saved.o.amax});
}

void Attention::forward_projection(Stream& stream, const SavedAttention& saved, const Tensor& y,
                                   const Pass& pass) const {
    proj_.forward(saved.o, y);
    stream.y = y;
    stream.dropout = pass.dropout(context_, DropoutSite::attention_output, layer_);
}

void Attention::attention_backward(const SavedAttention& saved, const Tensor& d_o,
                                   const Tensor& dqkv, const Pass& pass) const {
    if (shares_sequence()) {
        const ContextForward forward = context_args(saved, pass);
        context_attention_backward(context_.context_method,
                                   {.forward = forward,
                                    .d_o = output_heads(d_o, pass.batch),
                                    .dqkv = dqkv.view(forward.qkv.shape())},
                                   context_ranks());
    } else {
        const Heads grads = split(dqkv, pass.batch);
        context_.backend.run(
            AttentionBackward{.forward = local_args(split(saved.qkv, pass.batch), saved, pass),
                              .d_o = output_heads(d_o, pass.batch),
                              .dq = grads.q,
                              .dk = grads.k,
                              .dv = grads.v});
    }
    rotate(dqkv, pass.batch, true);
}

void Attention::backward(const SavedAttention& kept, StreamGrad& grad, const Dropout& branch,
                         const Pass& pass, BackwardPart part,
                         const DeferredAttention& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const std::int64_t tokens = pass.batch.tokens();
    const Shape stream = {pass.stream_tokens(context_), context_.shape.hidden};
    const bool inputs = part != BackwardPart::weights;
    WithAmax n = kept.n;
    if (part != BackwardPart::inputs && n.values.empty()) {
        n.values = context_.temporary(stream);
        norm_.rebuild(kept.norm, n.values);
    }
    if (part == BackwardPart::inputs) context_.backend.copy(deferred.dy, grad.dy.values);
    const WithAmax dy = inputs ? grad.dy : WithAmax{deferred.dy, {}};
    const Tensor dqkv =
        kept_or_temporary(deferred.dqkv, context_, context_.compute, {tokens, qkv_.outputs()});

    const Tensor d_o = inputs ? context_.temporary({tokens, proj_.inputs()}) : Tensor();
    proj_.backward({.x = kept.o, .dy = dy, .dx = d_o, .gelu_input = {}}, part);
    if (inputs) attention_backward(kept, d_o, dqkv, pass);
    const Tensor dn = inputs ? context_.temporary(stream) : Tensor();
    qkv_.backward({.x = n, .dy = {dqkv, {}}, .dx = dn, .gelu_input = {}}, part);
    if (inputs) norm_.backward(dn, kept.norm, grad, branch, pass, true);
}

}  // namespace gptrain
