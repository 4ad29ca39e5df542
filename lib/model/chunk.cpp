#include "model/chunk.h"

#include <algorithm>
#include <utility>

#include "model/grad_buckets.h"

namespace gptrain {
namespace {

/// W multiplies the input of each GEMM by its dy. To rebuild an input, W would need its source, but
/// that memory holds deferred gradients by then. Keeping the source as well would take no less
/// memory than keeping the inputs.
Recompute kept_mode(const SavedSizes& sizes) {
    const bool selective = sizes.recompute == Recompute::selective;
    return sizes.defer_weights && selective ? Recompute::none : sizes.recompute;
}

bool recomputes_blocks(const SavedChunk& saved) {
    return saved.blocks.front().attention.linears.u.empty();
}

}  // namespace

GptChunk::GptChunk(const ModelContext& context, Parameters& parameters, const ChunkPart& part,
                   ChunkRange flat)
    : context_(context), parameters_(parameters), part_(part), flat_(std::move(flat)) {
    GPTRAIN_CHECK(part.num_layers > 0, "a chunk needs at least one layer");
    if (part.embedding) embedding_.emplace(context, parameters);
    blocks_.reserve(static_cast<std::size_t>(part.num_layers));
    for (std::int64_t i = 0; i < part.num_layers; ++i)
        blocks_.emplace_back(context, parameters, BlockId{part.first_layer + i});
    if (part.head) head_.emplace(context, parameters);
}

StreamWindows GptChunk::reserve_windows(Arena& arena, std::int64_t seq_length) const {
    const Shape stream = context_.stream_shape(context_.sequences * seq_length);
    return {arena.allocate(context_.compute, stream), arena.allocate(context_.compute, stream)};
}

SavedChunk GptChunk::reserve(Arena& arena, const SavedSizes& sizes,
                             const StreamWindows& windows) const {
    const std::int64_t tokens = context_.sequences * sizes.seq_length;
    SavedChunk saved;
    if (embedding_) saved.embedded = embedding_->reserve(arena, tokens);
    for (std::size_t i = 0; i < blocks_.size() && sizes.on_host; ++i) {
        saved.blocks.emplace_back().attention.branch.norm.r = windows[i % windows.size()];
        saved.hosts.push_back(context_.memory[MemoryUse::host_saved].allocate(
            context_.compute, context_.stream_shape(tokens)));
    }
    for (std::size_t i = saved.blocks.size(); i < blocks_.size(); ++i) {
        saved.blocks.push_back(
            blocks_[i].reserve(arena, kept_mode(sizes), context_.sequences, sizes.seq_length));
    }
    saved.deferred.resize(blocks_.size());
    saved.overlays_deferred = sizes.defer_weights && !recomputes_blocks(saved) && blocks_alike();
    for (std::size_t i = 0; i < blocks_.size() && sizes.defer_weights; ++i) {
        const SavedBlock& next = saved.blocks[(i + 1) % blocks_.size()];
        saved.deferred[i] =
            saved.overlays_deferred
                ? blocks_[i].reserve_deferred(arena, tokens, free_after_input_gradients(next))
                : blocks_[i].reserve_deferred(arena, tokens);
    }
    return saved;
}

bool GptChunk::blocks_alike() const {
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
        return block.has_experts() == blocks_.front().has_experts();
    });
}

SavedHead GptChunk::reserve_head(Arena& arena, std::int64_t seq_length) const {
    return head_->norm().reserve(arena, context_.sequences * seq_length);
}

DeferredHead GptChunk::reserve_deferred_head(Arena& arena, std::int64_t seq_length) const {
    return head_->reserve_deferred(arena, context_.sequences * seq_length);
}

void GptChunk::start_stream(const Pass& pass, const Tensor& input, const SavedNorm& embedded,
                            const Tensor& r) const {
    if (embedding_) {
        // The flat order is reversed: the embedding comes after the first block.
        parameters_.wait_for({flat_.blocks.front().end, flat_.end});
        parameters_.need(flat_.embedding_unit());
        embedding_->forward(pass, embedded, r);
    } else {
        context_.backend.copy(r, input);
    }
}

std::optional<std::int64_t> GptChunk::fetch_stream(const SavedChunk& saved,
                                                   std::size_t layer) const {
    if (layer >= saved.hosts.size()) return std::nullopt;
    const HostTwin twin = {saved.blocks[layer].attention.branch.norm.r, saved.hosts[layer]};
    return context_.backend.fetch(std::span(&twin, 1));
}

std::optional<std::int64_t> GptChunk::store_stream(const SavedChunk& saved,
                                                   std::size_t layer) const {
    if (layer >= saved.hosts.size()) return std::nullopt;
    const HostTwin twin = {saved.blocks[layer].attention.branch.norm.r, saved.hosts[layer]};
    return context_.backend.store(std::span(&twin, 1));
}

void GptChunk::join(const std::optional<std::int64_t>& copies) const {
    if (copies) context_.backend.join(*copies);
}

void GptChunk::finish_stream(const Pass& pass, const Stream& stream, const Tensor& output) const {
    context_.backend.run(ResidualAdd{.r = stream.r,
                                     .y = stream.y,
                                     .dropout = stream.dropout,
                                     .r_out = output,
                                     .seq_length = pass.stream_length(context_)});
}

void GptChunk::forward(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                       const DeferredHead& deferred) const {
    const ArenaFrame frame(context_.workspace());
    const Tensor& r = saved.blocks.front().attention.branch.norm.r;
    StreamBuffers buffers = {.r = {}, .y = context_.temporary(r.shape())};
    // Without recomputation every stream is kept.
    if (recomputes_blocks(saved)) buffers.r = context_.temporary(r.shape());

    Stream stream = {.r = r, .y = {}, .dropout = {}};
    start_stream(pass, boundary.input, saved.embedded, r);
    // The copies of the last two blocks, whose windows are in use.
    std::array<std::optional<std::int64_t>, 2> leaving;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const ProfileRange range(context_.backend, blocks_[i].name());
        wait_for_block(i);
        join(leaving[i % leaving.size()]);
        blocks_[i].forward(stream, saved.blocks[i], buffers, pass);
        leaving[i % leaving.size()] = store_stream(saved, i);
    }
    if (head_) {
        const ProfileRange range(context_.backend, "head");
        wait_for_block(blocks_.size());
        // The gradient of a tied embedding is complete after backward only.
        if (embedding_ && pass.unit_grads != nullptr && parameters_.layout().head_adds_to_embedding)
            pass.unit_grads->begin(flat_.embedding_unit());
        with_grads(pass, flat_.head_unit(),
                   [&] { head_->forward_backward(stream, saved.head, deferred, pass); });
    } else {
        finish_stream(pass, stream, boundary.output);
    }
    for (const auto& copies : leaving)
        join(copies);
}

void GptChunk::with_grads(const Pass& pass, std::size_t unit, const auto& compute) {
    if (pass.unit_grads != nullptr) pass.unit_grads->begin(unit);
    compute();
    if (pass.unit_grads != nullptr) pass.unit_grads->end(unit);
}

void GptChunk::run_to_head(const Pass& pass, const Boundary& boundary, std::vector<KvCache>* caches,
                           const auto& use_head) const {
    const ArenaFrame frame(context_.workspace());
    const Shape shape = context_.stream_shape(pass.batch.tokens());
    const StreamBuffers buffers = {.r = context_.temporary(shape), .y = context_.temporary(shape)};
    Stream stream = {.r = buffers.r, .y = {}, .dropout = {}};
    start_stream(pass, boundary.input, {}, stream.r);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        wait_for_block(i);
        blocks_[i].forward(stream, {}, buffers, pass, caches == nullptr ? nullptr : &(*caches)[i]);
    }
    if (!head_) return finish_stream(pass, stream, boundary.output);
    wait_for_block(blocks_.size());
    use_head([&] { return head_->norm().forward(stream, buffers, pass); });
}

void GptChunk::evaluate(const Pass& pass, const Boundary& boundary) const {
    run_to_head(pass, boundary, nullptr,
                [&](const auto& norm) { head_->loss().add(norm(), {}, pass); });
}

void GptChunk::score(const Pass& pass, const Boundary& boundary, const TargetScores& scores) const {
    run_to_head(pass, boundary, nullptr,
                [&](const auto& norm) { head_->loss().score(norm(), pass, scores); });
}

void GptChunk::logits(const Pass& pass, const Boundary& boundary,
                      std::span<const std::int64_t> rows, const Tensor& logits,
                      std::vector<KvCache>* caches) const {
    run_to_head(pass, boundary, caches, [&](const auto& norm) {
        if (!rows.empty()) head_->loss().logits(norm(), rows, logits);
    });
}

std::vector<KvCache> GptChunk::reserve_caches(Arena& arena, std::int64_t sequences,
                                              std::int64_t capacity) const {
    std::vector<KvCache> caches;
    for (const Block& block : blocks_) {
        caches.push_back(block.reserve_cache(arena, sequences, capacity));
    }
    return caches;
}

Dropout GptChunk::input_dropout(std::size_t layer, const Pass& pass) const {
    return layer == 0 ? Dropout() : blocks_[layer - 1].output_dropout(pass);
}

void GptChunk::wait_for_block(std::size_t layer) const {
    if (parameters_.nothing_in_flight()) return;
    if (parameters_.gathers_weights()) {
        if (layer < blocks_.size()) {
            parameters_.need(flat_.block_unit(layer));
            return parameters_.prefetch(layer + 1 < blocks_.size() ? flat_.block_unit(layer + 1)
                                                                   : flat_.head_unit());
        }
        parameters_.need(flat_.head_unit());
        if (embedding_) parameters_.need(flat_.embedding_unit());
        return;
    }
    if (layer < blocks_.size()) return parameters_.wait_for(flat_.blocks[layer]);
    parameters_.wait_for({flat_.begin, flat_.blocks[layer - 1].begin});
    // A tied head uses the embedding's weights.
    if (embedding_) parameters_.wait_for({flat_.blocks.front().end, flat_.end});
}

void GptChunk::need_again(std::size_t layer) const {
    if (!parameters_.gathers_weights()) return;
    parameters_.need(flat_.block_unit(layer));
    if (layer > 0) parameters_.prefetch(flat_.block_unit(layer - 1));
}

void GptChunk::begin_gradient(const Pass& pass, const SavedChunk& saved, const Tensor& input,
                              StreamGrad& grad) const {
    const Dropout last = input_dropout(blocks_.size(), pass);
    grad.takes_dy8 = blocks_.back().takes_dy8();
    if (head_) return head_->norm().backward(saved.head, grad, last, pass);
    context_.backend.copy(grad.dr, input);
    start_branch_gradient(context_, grad, last, pass);
}

AmaxPool GptChunk::grad_amax_pool() const {
    const auto one_scale = [](const Block& block) { return block.one_scale(); };
    if (std::none_of(blocks_.begin(), blocks_.end(), one_scale)) return {};
    // One more for the head's norm.
    const Tensor numbers =
        context_.temporary_f32({1 + Block::grad_amax_count * std::ssize(blocks_)});
    context_.backend.run(Fill{.x = numbers, .value = 0});
    return AmaxPool(numbers);
}

void GptChunk::backward_inputs(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                               BackwardPart part, const GradsFinal& final) const {
    const ArenaFrame frame(context_.workspace());
    const Shape shape = saved.blocks.front().attention.branch.norm.r.shape();
    StreamGrad grad;
    // Its final value is the gradient that the previous chunk waits for.
    grad.dr = boundary.output.empty() ? context_.temporary(shape) : boundary.output;
    if (context_.shape.dropout > 0) grad.dropped = context_.temporary(shape);
    grad.amax_pool = grad_amax_pool();
    if (std::any_of(blocks_.begin(), blocks_.end(),
                    [](const Block& block) { return block.any_takes_dy8(); }))
        grad.dy8 = context_.temporary_rows8(shape);
    std::vector<DeferredBlock> deferred = saved.deferred;
    // The last block's deferred gradients overlay tensors that the first block's B still reads.
    const bool shared = part == BackwardPart::inputs && saved.overlays_deferred;
    if (shared) {
        deferred.back() =
            blocks_.back().reserve_deferred(context_.workspace(), pass.batch.tokens());
    }
    std::optional<std::int64_t> arriving = fetch_stream(saved, blocks_.size() - 1);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
        const ProfileRange range(context_.backend, blocks_[i].name());
        need_again(i);
        const std::optional<std::int64_t> stream = arriving;
        if (i > 0) arriving = fetch_stream(saved, i - 1);
        with_grads(pass, flat_.block_unit(i), [&] {
            // The last block's unit has the final norm.
            if (i + 1 == blocks_.size()) begin_gradient(pass, saved, boundary.input, grad);
            join(stream);
            grad.takes_dy8 = i > 0 && blocks_[i - 1].takes_dy8();
            blocks_[i].backward(saved.blocks[i], grad, input_dropout(i, pass), pass, part,
                                deferred[i]);
        });
        if (final && part == BackwardPart::whole) final(flat_.blocks[i].end);
    }
    if (shared) copy(context_.backend, saved.deferred.back(), deferred.back());
    if (!embedding_) return;
    parameters_.need(flat_.embedding_unit());
    with_grads(pass, flat_.embedding_unit(),
               [&] { embedding_->backward(pass, saved.embedded, grad.dr); });
}

void GptChunk::backward_weights(const Pass& pass, const SavedChunk& saved,
                                const GradsFinal& final) const {
    StreamGrad unused;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
        const ProfileRange range(context_.backend, blocks_[i].name());
        blocks_[i].backward(saved.blocks[i], unused, {}, pass, BackwardPart::weights,
                            saved.deferred[i]);
        if (final) final(flat_.blocks[i].end);
    }
}

void GptChunk::backward(const Pass& pass, const SavedChunk& saved, const Boundary& boundary,
                        BackwardPart part, const GradsFinal& final) const {
    if (part == BackwardPart::weights) {
        backward_weights(pass, saved, final);
    } else {
        backward_inputs(pass, saved, boundary, part, final);
    }
    if (final && part != BackwardPart::inputs) final(flat_.end);
}

void GptChunk::head_weights(const DeferredHead& deferred, const GradsFinal& final) const {
    const ProfileRange range(context_.backend, "head");
    head_->weight_gradient(deferred);
    if (final) final(flat_.end);
}

}  // namespace gptrain
