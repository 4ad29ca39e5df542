#include "model/block.h"

namespace gptrain {

namespace {

DeferredHalf free_after_input_gradients(const SavedMlp& saved) {
    return {.dy = saved.norm.r, .du = saved.linears.u};
}

DeferredHalf free_after_input_gradients(const SavedExperts& saved) {
    return {.dy = saved.norm.r, .du = saved.u, .shared_du = saved.shared.linears.u};
}

void copy(Backend& backend, const DeferredHalf& to, const DeferredHalf& from) {
    backend.copy(to.dy, from.dy);
    backend.copy(to.du, from.du);
    if (!to.shared_du.empty()) backend.copy(to.shared_du, from.shared_du);
}

/// The linear layers of a half that may compute in FP8.
SavedLinears* fp8_linears(SavedMlp& saved) {
    return &saved.linears;
}
SavedLinears* fp8_linears(SavedExperts& /*saved*/) {
    return nullptr;
}

}  // namespace

DeferredBlock free_after_input_gradients(const SavedBlock& saved) {
    return {
        .attention = {.dy = saved.attention.norm.r, .du = saved.attention.linears.u},
        .feed_forward = std::visit(
            [](const auto& half) { return free_after_input_gradients(half); }, saved.feed_forward)};
}

void copy(Backend& backend, const DeferredBlock& to, const DeferredBlock& from) {
    copy(backend, to.attention, from.attention);
    copy(backend, to.feed_forward, from.feed_forward);
}

std::variant<Mlp, Experts> Block::make_feed_forward(const ModelContext& context,
                                                    const Parameters& parameters,
                                                    const BlockId& block) {
    using Half = std::variant<Mlp, Experts>;
    if (context.shape.has_experts(block.layer))
        return Half(std::in_place_type<Experts>, context, parameters, block);
    return Half(std::in_place_type<Mlp>, context, parameters, block);
}

Block::Block(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      name_(block.name),
      attention_(context, parameters, block),
      feed_forward_(make_feed_forward(context, parameters, block)) {}

Dropout Block::output_dropout(const Pass& pass) const {
    return feed_forward([&](const auto& half) { return half.branch().output_dropout(pass); });
}

SavedBlock Block::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                          std::int64_t seq_length) const {
    SavedBlock saved;
    saved.attention = attention_.reserve(arena, recompute, sequences, seq_length);
    feed_forward([&](const auto& half) {
        saved.feed_forward = half.reserve(arena, recompute, sequences * seq_length);
    });
    if (recompute != Recompute::full) reserve_amaxes(saved, arena);
    return saved;
}

void Block::reserve_amaxes(SavedBlock& saved, Arena& arena) const {
    if (!fp8()) return;
    saved.amaxes = arena.allocate(DType::f32, {4});
    AmaxPool amaxes(saved.amaxes);
    SavedLinears* const second =
        std::visit([](auto& half) { return fp8_linears(half); }, saved.feed_forward);
    for (SavedLinears* linears : {&saved.attention.linears, second}) {
        if (linears == nullptr) continue;
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
        const auto saved = half.with_workspace(saved_by(half, cleared), buffers.r, pass.batch);
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
        saved.feed_forward = half.with_workspace(saved_by(half, saved), r, pass.batch);
    });
    Stream stream = {.r = kept.attention.norm.r, .y = {}, .dropout = {}};
    attention_.forward(stream, saved.attention, pass);
    const ArenaFrame frame(context_.workspace());
    attention_.project(stream, saved.attention, context_.temporary(stream_shape), pass);
    Pass again = pass;
    again.again = true;
    feed_forward([&](const auto& half) { half.forward(stream, saved_by(half, saved), again); });
    return saved;
}

void Block::backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch_dropout,
                     const Pass& pass, BackwardPart part, const DeferredBlock& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool full = kept.attention.linears.u.empty();
    const SavedBlock saved = full ? recomputed(kept, pass) : kept;
    const Dropout between = attention_.branch().output_dropout(pass);
    feed_forward([&](const auto& half) {
        half.backward(saved_by(half, saved), grad, between, pass, part, deferred.feed_forward);
    });
    attention_.backward(saved.attention, grad, branch_dropout, pass, part, deferred.attention);
}

}  // namespace gptrain
