#include "model/block.h"

namespace gptrain {

DeferredBlock used_up_by_inputs(const SavedBlock& saved) {
    return {.attention = {.dy = saved.attention.norm.r, .dqkv = saved.attention.qkv},
            .mlp = {.dy = saved.mlp.norm.r, .du = saved.mlp.u}};
}

void copy(Backend& backend, const DeferredBlock& to, const DeferredBlock& from) {
    backend.copy(to.attention.dy, from.attention.dy);
    backend.copy(to.attention.dqkv, from.attention.dqkv);
    backend.copy(to.mlp.dy, from.mlp.dy);
    backend.copy(to.mlp.du, from.mlp.du);
}

Block::Block(const ModelContext& context, const Parameters& parameters, std::int64_t layer)
    : context_(context),
      layer_(layer),
      attention_(context, parameters, layer),
      mlp_(context, parameters, layer) {}

SavedBlock Block::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                          std::int64_t seq_length) const {
    SavedBlock saved;
    saved.attention = attention_.reserve(arena, recompute, sequences, seq_length);
    saved.mlp = mlp_.reserve(arena, recompute, sequences * seq_length);
    if (recompute != Recompute::full) reserve_maxima(saved, arena);
    return saved;
}

void Block::reserve_maxima(SavedBlock& saved, Arena& arena) const {
    if (!float8()) return;
    saved.maxima = arena.allocate(DType::f32, {4});
    Maxima maxima(saved.maxima);
    saved.attention.n.maximum = maxima.next();
    saved.attention.o.maximum = maxima.next();
    saved.mlp.n.maximum = maxima.next();
    saved.mlp.a.maximum = maxima.next();
}

SavedBlock Block::with_cleared_maxima(SavedBlock kept) const {
    if (kept.maxima.empty()) reserve_maxima(kept, context_.workspace());
    if (float8()) context_.backend.fill(kept.maxima, 0);
    return kept;
}

DeferredBlock Block::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.attention = attention_.reserve_deferred(arena, tokens),
            .mlp = mlp_.reserve_deferred(arena, tokens)};
}

void Block::forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                    const Pass& pass, KvCache* cache) const {
    const ArenaFrame frame(context_.workspace());
    const SavedBlock cleared = with_cleared_maxima(kept);
    {
        const ArenaFrame half(context_.workspace());
        const SavedAttention saved = attention_.complete(cleared.attention, buffers.r, pass.batch);
        attention_.forward_inner(stream, saved, pass, cache);
        attention_.forward_outer(stream, saved, buffers.y, pass);
    }
    const SavedMlp saved = mlp_.complete(cleared.mlp, buffers.r, pass.batch.tokens());
    mlp_.forward_inner(stream, saved, pass);
    mlp_.forward_outer(stream, saved, buffers.y, pass);
}

SavedBlock Block::recomputed(const SavedBlock& kept, const Pass& pass) const {
    const Shape stream_shape = kept.attention.norm.r.shape();
    const Tensor r = context_.temporary(stream_shape);
    SavedBlock saved = with_cleared_maxima(kept);
    saved.attention = attention_.complete(saved.attention, {}, pass.batch);
    saved.mlp = mlp_.complete(saved.mlp, r, pass.batch.tokens());
    Stream stream = {.r = kept.attention.norm.r, .y = {}, .dropout = {}};
    attention_.forward_inner(stream, saved.attention, pass);
    const ArenaFrame frame(context_.workspace());
    attention_.forward_outer(stream, saved.attention, context_.temporary(stream_shape), pass);
    mlp_.forward_inner(stream, saved.mlp, pass);
    return saved;
}

void Block::backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch,
                     const Pass& pass, BackwardPart part, const DeferredBlock& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool full = kept.attention.qkv.empty();
    const SavedBlock saved = full ? recomputed(kept, pass) : kept;
    const Dropout between = pass.dropout(context_, DropoutSite::attention_output, layer_);
    mlp_.backward(saved.mlp, grad, between, pass, part, deferred.mlp);
    attention_.backward(saved.attention, grad, branch, pass, part, deferred.attention);
}

}  // namespace gptrain
