#include "model/block.h"

namespace gptrain {

DeferredBlock free_after_input_gradients(const SavedBlock& saved) {
    return {.attention = {.dy = saved.attention.norm.r, .du = saved.attention.linears.u},
            .feed_forward = {.dy = saved.feed_forward.norm.r, .du = saved.feed_forward.linears.u}};
}

void copy(Backend& backend, const DeferredBlock& to, const DeferredBlock& from) {
    backend.copy(to.attention.dy, from.attention.dy);
    backend.copy(to.attention.du, from.attention.du);
    backend.copy(to.feed_forward.dy, from.feed_forward.dy);
    backend.copy(to.feed_forward.du, from.feed_forward.du);
}

Block::Block(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      name_(block.name),
      attention_(context, parameters, block),
      feed_forward_(std::in_place_type<Mlp>, context, parameters, block) {}

Dropout Block::output_dropout(const Pass& pass) const {
    return feed_forward([&](const auto& half) { return half.branch().output_dropout(pass); });
}

SavedBlock Block::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                          std::int64_t seq_length) const {
    SavedBlock saved;
    saved.attention = attention_.reserve(arena, recompute, sequences, seq_length);
    saved.feed_forward = feed_forward(
        [&](const auto& half) { return half.reserve(arena, recompute, sequences * seq_length); });
    if (recompute != Recompute::full) reserve_amaxes(saved, arena);
    return saved;
}

void Block::reserve_amaxes(SavedBlock& saved, Arena& arena) const {
    if (!fp8()) return;
    saved.amaxes = arena.allocate(DType::f32, {4});
    AmaxPool amaxes(saved.amaxes);
    for (SavedLinears* linears : {&saved.attention.linears, &saved.feed_forward.linears}) {
        linears->n.amax = amaxes.next();
        linears->a.amax = amaxes.next();
    }
}

SavedBlock Block::with_cleared_amaxes(SavedBlock kept) const {
    if (kept.amaxes.empty()) reserve_amaxes(kept, context_.workspace());
    if (fp8()) context_.backend.run(Fill{.x = kept.amaxes, .value = 0});
    return kept;
}

DeferredBlock Block::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.attention = attention_.reserve_deferred(arena, tokens),
            .feed_forward = feed_forward(
                [&](const auto& half) { return half.reserve_deferred(arena, tokens); })};
}

void Block::forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                    const Pass& pass, KvCache* cache) const {
    const ArenaFrame frame(context_.workspace());
    const SavedBlock cleared = with_cleared_amaxes(kept);
    {
        const ArenaFrame half(context_.workspace());
        const SavedAttention saved =
            attention_.with_workspace(cleared.attention, buffers.r, pass.batch);
        attention_.forward(stream, saved, pass, cache);
        attention_.project(stream, saved, buffers.y, pass);
    }
    feed_forward([&](const auto& half) {
        const auto saved = half.with_workspace(cleared.feed_forward, buffers.r, pass.batch);
        half.forward(stream, saved, pass);
        half.project(stream, saved, buffers.y, pass);
    });
}

SavedBlock Block::recomputed(const SavedBlock& kept, const Pass& pass) const {
    const Shape stream_shape = kept.attention.norm.r.shape();
    const Tensor r = context_.temporary(stream_shape);
    SavedBlock saved = with_cleared_amaxes(kept);
    saved.attention = attention_.with_workspace(saved.attention, {}, pass.batch);
    feed_forward([&](const auto& half) {
        saved.feed_forward = half.with_workspace(saved.feed_forward, r, pass.batch);
    });
    Stream stream = {.r = kept.attention.norm.r, .y = {}, .dropout = {}};
    attention_.forward(stream, saved.attention, pass);
    const ArenaFrame frame(context_.workspace());
    attention_.project(stream, saved.attention, context_.temporary(stream_shape), pass);
    feed_forward([&](const auto& half) { half.forward(stream, saved.feed_forward, pass); });
    return saved;
}

void Block::backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch_dropout,
                     const Pass& pass, BackwardPart part, const DeferredBlock& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool full = kept.attention.linears.u.empty();
    const SavedBlock saved = full ? recomputed(kept, pass) : kept;
    const Dropout between = attention_.branch().output_dropout(pass);
    feed_forward([&](const auto& half) {
        half.backward(saved.feed_forward, grad, between, pass, part, deferred.feed_forward);
    });
    attention_.backward(saved.attention, grad, branch_dropout, pass, part, deferred.attention);
}

}  // namespace gptrain
