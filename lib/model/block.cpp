#include "model/block.h"

#include <utility>

namespace gptrain {

namespace {

DeferredHalf free_after_input_gradients(const SavedMlp& saved) {
    return {.dy = saved.branch.free_after_input_gradients(), .du = saved.linears.u};
}

DeferredHalf free_after_input_gradients(const SavedExperts& saved) {
    return {.dy = saved.branch.free_after_input_gradients(),
            .du = saved.u,
            .shared_du = saved.shared.linears.u};
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
    DeferredBlock free = {
        .attention = {.dy = saved.attention.branch.free_after_input_gradients(),
                      .du = saved.attention.linears.u},
        .feed_forward = std::visit(
            [](const auto& half) { return free_after_input_gradients(half); }, saved.feed_forward)};
    if (free.feed_forward.dy.data() == free.attention.dy.data()) free.feed_forward.dy = {};
    return free;
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
    if (is_parallel()) return {};
    return feed_forward([&](const auto& half) { return half.branch().output_dropout(pass); });
}

bool Block::takes_dy8() const {
    const Mlp* const mlp = std::get_if<Mlp>(&feed_forward_);
    // Halves side by side read copies of one gradient.
    return mlp != nullptr && !is_parallel() && mlp->takes_dy8();
}

SavedBlock Block::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                          std::int64_t seq_length) const {
    SavedBlock saved;
    saved.attention = attention_.reserve(arena, recompute, sequences, seq_length);
    feed_forward([&](const auto& half) {
        const Tensor shared = is_parallel() ? saved.attention.branch.norm.r : Tensor();
        saved.feed_forward = half.reserve(arena, recompute, sequences * seq_length, shared);
    });
    if (recompute != Recompute::full) reserve_amaxes(saved, arena);
    return saved;
}

void Block::reserve_amaxes(SavedBlock& saved, Arena& arena) const {
    if (!one_scale()) return;
    saved.amaxes = arena.allocate(DType::f32, {4});
    AmaxPool amaxes(saved.amaxes);
    SavedLinears* const second =
        std::visit([](auto& half) { return fp8_linears(half); }, saved.feed_forward);
    for (SavedLinears* linears : {&saved.attention.linears, second}) {
        if (linears == nullptr) continue;
        // The norm that writes n finds it.
        if (context_.shape.norm_placement != NormPlacement::after) linears->n.amax = amaxes.next();
        linears->a.amax = amaxes.next();
    }
}

SavedBlock Block::with_cleared_amaxes(SavedBlock kept) const {
    if (kept.amaxes.empty()) reserve_amaxes(kept, context_.workspace());
    if (one_scale()) context_.backend.run(Fill{.x = kept.amaxes, .value = 0});
    return kept;
}

DeferredBlock Block::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.attention = attention_.reserve_deferred(arena, tokens),
            .feed_forward = feed_forward(
                [&](const auto& half) { return half.reserve_deferred(arena, tokens); })};
}

DeferredBlock Block::reserve_deferred(Arena& arena, std::int64_t tokens,
                                      DeferredBlock deferred) const {
    if (deferred.feed_forward.dy.empty())
        deferred.feed_forward.dy = arena.allocate(context_.compute, context_.stream_shape(tokens));
    return deferred;
}

void Block::add_branch(Stream& stream, const Stream& second, const Pass& pass) const {
    for (const Stream& branch : {stream, second}) {
        if (branch.dropout.probability == 0) continue;
        context_.backend.run(ApplyDropout{.x = branch.y,
                                          .dropout = branch.dropout,
                                          .y = branch.y,
                                          .seq_length = pass.stream_length(context_)});
    }
    context_.backend.run(Add{.x = stream.y, .y = second.y});
    stream.dropout = {};
}

void Block::forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                    const Pass& pass, KvCache* cache) const {
    const ArenaFrame frame(context_.workspace());
    const SavedBlock cleared = with_cleared_amaxes(kept);
    {
        const ArenaFrame half(context_.workspace());
        const SavedAttention saved =
            attention_.with_workspace(cleared.attention, buffers.r, pass.batch, false);
        attention_.forward(stream, saved, pass, cache);
        attention_.project(stream, saved, buffers.y, pass);
    }
    Stream second = stream;
    if (is_parallel()) second = {.r = stream.r, .y = {}, .dropout = {}};
    const Tensor r = is_parallel() ? stream.r : buffers.r;
    const Tensor y = is_parallel() ? context_.temporary(stream.r.shape()) : buffers.y;
    feed_forward([&](const auto& half) {
        const auto saved = half.with_workspace(saved_by(half, cleared), r, pass.batch, false);
        half.forward(second, saved, pass);
        half.project(second, saved, y, pass);
    });
    if (is_parallel()) {
        add_branch(stream, second, pass);
    } else {
        stream = second;
    }
}

SavedBlock Block::recomputed(const SavedBlock& kept, const Pass& pass) const {
    const Tensor& entering = kept.attention.branch.norm.r;
    const Tensor r = is_parallel() ? entering : context_.temporary(entering.shape());
    SavedBlock saved = with_cleared_amaxes(kept);
    saved.attention = attention_.with_workspace(saved.attention, {}, pass.batch, true);
    feed_forward([&](const auto& half) {
        saved.feed_forward = half.with_workspace(saved_by(half, saved), r, pass.batch, true);
    });
    Stream stream = {.r = entering, .y = {}, .dropout = {}};
    attention_.forward(stream, saved.attention, pass);
    const ArenaFrame frame(context_.workspace());
    const Tensor y = context_.temporary(entering.shape());
    if (!is_parallel()) attention_.project(stream, saved.attention, y, pass);
    Pass again = pass;
    again.again = true;
    feed_forward([&](const auto& half) {
        half.forward(stream, saved_by(half, saved), again);
        if (half.branch().has_post_norm()) half.project(stream, saved_by(half, saved), y, again);
    });
    return saved;
}

void Block::parallel_backward(const SavedBlock& saved, StreamGrad& grad,
                              const Dropout& branch_dropout, const Pass& pass, BackwardPart part,
                              const DeferredBlock& deferred) const {
    // The gradients of both branches come from that of their sum, which the norm of the second
    // half then adds to.
    const auto dropped = [&](const Dropout& dropout, const Tensor& to) {
        if (dropout.probability == 0) return context_.backend.copy(to, grad.dr);
        context_.backend.run(ApplyDropout{
            .x = grad.dr, .dropout = dropout, .y = to, .seq_length = pass.stream_length(context_)});
    };
    LinearOperand of_attention;
    if (part != BackwardPart::weights) {
        of_attention.values = context_.temporary(grad.dr.shape());
        dropped(attention_.branch().output_dropout(pass), of_attention.values);
    }
    feed_forward([&](const auto& half) {
        const Dropout dropout = half.branch().output_dropout(pass);
        if (part != BackwardPart::weights && dropout.probability > 0) {
            dropped(dropout, grad.dropped);
            grad.dy = {.values = grad.dropped};
        }
        half.backward(saved_by(half, saved), grad, {}, pass, part, deferred.feed_forward);
    });
    grad.dy = of_attention;
    attention_.backward(saved.attention, grad, branch_dropout, pass, part, deferred.attention);
}

void Block::backward(const SavedBlock& kept, StreamGrad& grad, const Dropout& branch_dropout,
                     const Pass& pass, BackwardPart part, const DeferredBlock& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const bool full = kept.attention.linears.u.empty();
    const SavedBlock saved = full ? recomputed(kept, pass) : kept;
    if (is_parallel()) return parallel_backward(saved, grad, branch_dropout, pass, part, deferred);
    const Dropout between = attention_.branch().output_dropout(pass);
    const bool before_takes_dy8 = std::exchange(grad.takes_dy8, attention_.takes_dy8());
    feed_forward([&](const auto& half) {
        half.backward(saved_by(half, saved), grad, between, pass, part, deferred.feed_forward);
    });
    grad.takes_dy8 = before_takes_dy8;
    attention_.backward(saved.attention, grad, branch_dropout, pass, part, deferred.attention);
}

}  // namespace gptrain
