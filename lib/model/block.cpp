#include "model/block.h"

namespace gptrain {

DeferredBlock free_after_input_gradients(const SavedBlock& saved) {
    return {.attention = {.dy = saved.attention.norm.r, .du = saved.attention.u},
            .mlp = {.dy = saved.mlp.norm.r, .du = saved.mlp.u}};
}

void copy(Backend& backend, const DeferredBlock& to, const DeferredBlock& from) {
    backend.copy(to.attention.dy, from.attention.dy);
    backend.copy(to.attention.du, from.attention.du);
    backend.copy(to.mlp.dy, from.mlp.dy);
    backend.copy(to.mlp.du, from.mlp.du);
}

Block::Block(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      name_(block.name),
      attention_(context, parameters, block),
      mlp_(context, parameters, block) {}

SavedBlock Block::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                          std::int64_t seq_length) const {
    SavedBlock saved;
    saved.attention = attention_.reserve(arena, recompute, sequences, seq_length);
    saved.mlp = mlp_.reserve(arena, recompute, sequences * seq_length);
    if (recompute != Recompute::full) reserve_amaxes(saved, arena);
    return saved;
}

void Block::reserve_amaxes(SavedBlock& saved, Arena& arena) const {
    if (!fp8()) return;
    saved.amaxes = arena.allocate(DType::f32, {4});
    AmaxPool amaxes(saved.amaxes);
    saved.attention.n.amax = amaxes.next();
    saved.attention.a.amax = amaxes.next();
    saved.mlp.n.amax = amaxes.next();
    saved.mlp.a.amax = amaxes.next();
}

SavedBlock Block::with_cleared_amaxes(SavedBlock kept) const {
    if (kept.amaxes.empty()) reserve_amaxes(kept, context_.workspace());
    if (fp8()) context_.backend.run(Fill{.x = kept.amaxes, .value = 0});
    return kept;
}

DeferredBlock Block::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.attention = attention_.half().reserve_deferred(arena, tokens),
            .mlp = mlp_.half().reserve_deferred(arena, tokens)};
}

void Block::forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                    const Pass& pass, KvCache* cache) const {
    const ArenaFrame frame(context_.workspace());
    const SavedBlock cleared = with_cleared_amaxes(kept);
    {
        const ArenaFrame half(context_.workspace());
        const SavedAttention saved =
            attention_.with_workspace(cleared.attention, buffers.r, pass.batch);
        attention_.forward_attention(stream, saved, pass, cache);
        attention_.half().forward_projection(stream, saved, buffers.y, pass);
    }
    const SavedHalf saved = mlp_.half().with_workspace(cleared.mlp, buffers.r, pass.batch.tokens());
    mlp_.forward_activation(stream, saved, pass);
    mlp_.half().forward_projection(stream, saved, buffers.y, pass);
}

SavedBlock Block::recomputed(const SavedBlock& kept, const Pass& pass) const {
    const Shape stream_shape = kept.attention.norm.r.shape();
    const Tensor r = context_.temporary(stream_shape);
    SavedBlock saved = with_cleared_amaxes(kept);
    saved.attention = attention_.with_workspace(saved.attention, {}, pass.batch);
    saved.mlp = mlp_.half().with_workspace(saved.mlp, r, pass.batch.tokens());
    Stream stream = {.r = kept.attention.norm.r, .y = {}, .dropout = {}};
    attention_.forward_attention(stream, saved.attention, pass);
    const ArenaFrame frame(context_.workspace());
    attention_.half().forward_projection(stream, saved.attention, context_.temporary(stream_shape),
                                         pass);
    mlp_.forward_activation(stream, saved.mlp, pass);
    return saved;
}

void Block::backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch_dropout,
                     const Pass& pass, BackwardPart part, const DeferredBlock& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool full = kept.attention.u.empty();
    const SavedBlock saved = full ? recomputed(kept, pass) : kept;
    const Dropout between = attention_.half().output_dropout(pass);
    mlp_.backward(saved.mlp, grad, between, pass, part, deferred.mlp);
    attention_.backward(saved.attention, grad, branch_dropout, pass, part, deferred.attention);
}

}  // namespace gptrain
