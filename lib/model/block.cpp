#include "model/block.h"

namespace gptrain {

Block::Block(const ModelContext& context, const Parameters& parameters, std::int64_t layer)
    : context_(context),
      layer_(layer),
      attention_(context, parameters, layer),
      mlp_(context, parameters, layer) {}

SavedBlock Block::reserve(Arena& arena, Recompute recompute, std::int64_t sequences,
                          std::int64_t seq_length) const {
    return {.attention = attention_.reserve(arena, recompute, sequences, seq_length),
            .mlp = mlp_.reserve(arena, recompute, sequences * seq_length)};
}

DeferredBlock Block::reserve_deferred(Arena& arena, std::int64_t tokens) const {
    return {.attention = attention_.reserve_deferred(arena, tokens),
            .mlp = mlp_.reserve_deferred(arena, tokens)};
}

void Block::forward(Stream& stream, const SavedBlock& kept, const StreamBuffers& buffers,
                    const Pass& pass, KvCache* cache) const {
    {
        const ArenaFrame frame(context_.workspace());
        const SavedAttention saved = attention_.complete(kept.attention, buffers.r, pass.batch);
        attention_.forward_inner(stream, saved, pass, cache);
        attention_.forward_outer(stream, saved, buffers.y, pass);
    }
    const ArenaFrame frame(context_.workspace());
    const SavedMlp saved = mlp_.complete(kept.mlp, buffers.r, pass.batch.tokens());
    mlp_.forward_inner(stream, saved, pass);
    mlp_.forward_outer(stream, saved, buffers.y, pass);
}

SavedBlock Block::recomputed(const SavedBlock& kept, const Pass& pass) const {
    const Shape stream_shape = kept.attention.norm.r.shape();
    const Tensor r = context_.temporary(stream_shape);
    SavedBlock saved;
    saved.attention = attention_.complete(kept.attention, {}, pass.batch);
    saved.mlp = mlp_.complete(kept.mlp, r, pass.batch.tokens());
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
