#include "model/chunk.h"

#include <algorithm>

namespace gptrain {

GptChunk::GptChunk(const ModelContext& context, const Parameters& parameters, const ChunkPart& part)
    : context_(context),
      parameters_(parameters),
      part_(part),
      embedding_(context, parameters),
      head_(context, parameters) {
    GPTRAIN_CHECK(part.embedding && part.head, "a chunk is the whole model");
    blocks_.reserve(static_cast<std::size_t>(part.num_layers));
    for (std::int64_t i = 0; i < part.num_layers; ++i) {
        blocks_.emplace_back(context, parameters, part.first_layer + i);
        names_.push_back(text("h.", part.first_layer + i));
    }
}

void GptChunk::reserve(const ChunkMemory& memory) {
    const std::int64_t tokens = memory.sequences * memory.seq_length;
    Arena& saved = context_.memory[MemoryUse::saved];
    recompute_ = memory.recompute;
    for (std::int64_t i = 0; i < memory.slots; ++i) {
        Slot slot;
        slot.batch = reserve_batch(context_.memory[MemoryUse::batch], memory.sequences,
                                   memory.seq_length, memory.first_visible);
        for (const Block& block : blocks_) {
            slot.blocks.push_back(
                block.reserve(saved, memory.recompute, memory.sequences, memory.seq_length));
            slot.deferred.push_back(memory.defer_weights ? block.reserve_deferred(saved, tokens)
                                                         : DeferredBlock());
        }
        slot.head = head_.reserve(saved, tokens);
        slots_.push_back(std::move(slot));
    }
}

std::size_t GptChunk::index(std::int64_t slot) const {
    GPTRAIN_CHECK(slot >= 0 && slot < static_cast<std::int64_t>(slots_.size()), "slot ", slot);
    return static_cast<std::size_t>(slot);
}

StreamBuffers GptChunk::stream_buffers(std::int64_t tokens) const {
    const Shape shape = {tokens, context_.shape.hidden};
    return {.r = context_.temporary(shape), .y = context_.temporary(shape)};
}

void GptChunk::forward(const StepRef& step) {
    const ArenaFrame frame(context_.workspace());
    const Pass pass = training_pass(step);
    Slot& slot = slots_[index(step.slot)];
    // Only full recomputation has streams that are not kept.
    StreamBuffers buffers = {.r = {}, .y = context_.temporary(slot.head.dn.shape())};
    if (recompute_ == Recompute::full) buffers.r = context_.temporary(slot.head.dn.shape());

    Stream stream = {.r = slot.blocks.front().attention.norm.r, .y = {}, .dropout = {}};
    embedding_.forward(pass, stream.r);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        const ProfileRange range(context_.backend, names_[i]);
        blocks_[i].forward(stream, slot.blocks[i], buffers, pass);
    }
    const ProfileRange range(context_.backend, "head");
    head_.forward_backward(stream, slot.head, pass);
}

Stream GptChunk::run_transient(const Pass& pass, const StreamBuffers& buffers,
                               std::vector<KvCache>* caches) {
    Stream stream = {.r = buffers.r, .y = {}, .dropout = {}};
    embedding_.forward(pass, stream.r);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        blocks_[i].forward(stream, {}, buffers, pass, caches == nullptr ? nullptr : &(*caches)[i]);
    }
    return stream;
}

void GptChunk::evaluate(const Batch& batch, const StepRef& step) {
    const ArenaFrame frame(context_.workspace());
    const Pass pass = {.batch = batch, .step = step, .training = false};
    const StreamBuffers buffers = stream_buffers(batch.tokens());
    Stream stream = run_transient(pass, buffers, nullptr);
    head_.forward(stream, buffers, pass);
}

void GptChunk::next_token_logits(const Batch& batch, std::vector<KvCache>& caches,
                                 const Tensor& logits) {
    const ArenaFrame frame(context_.workspace());
    const Pass pass = {.batch = batch, .step = {}, .training = false};
    const StreamBuffers buffers = stream_buffers(batch.tokens());
    Stream stream = run_transient(pass, buffers, &caches);
    head_.last_logits(stream, buffers, pass, logits);
}

std::vector<KvCache> GptChunk::reserve_caches(Arena& arena, std::int64_t sequences,
                                              std::int64_t capacity) const {
    std::vector<KvCache> caches;
    for (const Block& block : blocks_) {
        caches.push_back(block.reserve_cache(arena, sequences, capacity));
    }
    return caches;
}

Dropout GptChunk::incoming(std::size_t layer, const Pass& pass) const {
    return layer == 0 ? Dropout() : blocks_[layer - 1].outgoing(pass);
}

std::int64_t GptChunk::block_end(std::size_t layer) const {
    // In the flat order a block's last group is its first norm's weight.
    return parameters_.group_end(
        text("h.", part_.first_layer + static_cast<std::int64_t>(layer), ".ln_1.weight"));
}

Maxima GptChunk::grad_maxima() const {
    const auto float8 = [](const Block& block) { return block.float8(); };
    if (std::none_of(blocks_.begin(), blocks_.end(), float8)) return {};
    // The head's norm takes one.
    const Tensor numbers = context_.temporary_f32({1 + Block::grad_maxima * std::ssize(blocks_)});
    context_.backend.fill(numbers, 0);
    return Maxima(numbers);
}

void GptChunk::backward_inputs(Slot& slot, const Pass& pass, BackwardPart part,
                               const GradsFinal& final) {
    const ArenaFrame frame(context_.workspace());
    const Shape shape = slot.head.dn.shape();
    StreamGrad grad = {
        .dr = context_.temporary(shape), .dropped = {}, .dy = {}, .maxima = grad_maxima()};
    if (context_.shape.dropout > 0) grad.dropped = context_.temporary(shape);
    head_.backward(slot.head, grad, incoming(blocks_.size(), pass), pass);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
        const ProfileRange range(context_.backend, names_[i]);
        blocks_[i].backward(slot.blocks[i], grad, incoming(i, pass), pass, part, slot.deferred[i]);
        if (final && part == BackwardPart::whole) final(block_end(i));
    }
    embedding_.backward(pass, grad.dr);
}

void GptChunk::backward_weights(Slot& slot, const Pass& pass, const GradsFinal& final) {
    StreamGrad unused;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
        const ProfileRange range(context_.backend, names_[i]);
        blocks_[i].backward(slot.blocks[i], unused, {}, pass, BackwardPart::weights,
                            slot.deferred[i]);
        if (final) final(block_end(i));
    }
}

void GptChunk::backward(const StepRef& step, BackwardPart part, const GradsFinal& final) {
    const Pass pass = training_pass(step);
    Slot& slot = slots_[index(step.slot)];
    if (part == BackwardPart::weights) {
        backward_weights(slot, pass, final);
    } else {
        backward_inputs(slot, pass, part, final);
    }
    if (final && part != BackwardPart::inputs) final(parameters_.layout().elements);
}

}  // namespace gptrain
