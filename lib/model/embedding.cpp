#include "model/embedding.h"

#include "model/slices.h"
#include "tensor/dtype_switch.h"

namespace gptrain {

Embedding::Embedding(const ModelContext& context, const Parameters& parameters)
    : context_(context),
      tokens_(parameters.group("wte.weight")),
      positions_(parameters.group("wpe.weight")),
      virtual_tokens_(context, parameters),
      vocab_begin_(context.vocab_begin()) {
    if (context.shape.embedding_norm) norm_.emplace(context, parameters, "ln_wte");
}

float Embedding::token_scale() const {
    auto scale = static_cast<float>(context_.shape.embedding_scale);
    with_compute_type(context_.compute,
                      [&](auto type) { scale = to_float(from_float<decltype(type)>(scale)); });
    return scale;
}

void Embedding::forward(const Pass& pass, const SavedNorm& kept, const Tensor& x) const {
    if (!norm_) return embed(pass, x);
    const ArenaFrame frame(context_.workspace());
    const Tensor embedded = context_.kept_or_temporary(kept.r, x.shape());
    const SavedNorm saved = norm_->with_workspace(kept, embedded, pass.batch.tokens());
    embed(pass, embedded);
    Stream stream = {.r = embedded, .y = {}, .dropout = {}};
    norm_->forward(stream, saved, {.values = x}, pass);
}

void Embedding::backward(const Pass& pass, const SavedNorm& saved, const Tensor& dx) const {
    if (!norm_) return embed_backward(pass, dx);
    const ArenaFrame frame(context_.workspace());
    StreamGrad grad;
    grad.dr = context_.temporary(dx.shape());
    norm_->backward(dx, saved, grad, {}, pass, false);
    embed_backward(pass, grad.dr);
}

void Embedding::embed(const Pass& pass, const Tensor& x) const {
    const ArenaFrame frame(context_.workspace());
    const Tensor part = allocate_whole(context_, x);
    context_.backend.run(EmbeddingForward{.ids = pass.batch.ids,
                                          .weight = tokens_.weight,
                                          .vocab_begin = vocab_begin_,
                                          .x = part,
                                          .scale = token_scale()});
    if (virtual_tokens_.present() && !pass.batch.only_text)
        virtual_tokens_.add(pass.batch.ids, part);
    reduce_parts(context_, x, part).wait();
    const Dropout mask = dropout(pass);
    if (positions_.weight.empty() && mask.probability == 0) return;
    context_.backend.run(PositionForward{.x = x,
                                         .positions = pass.batch.stream_positions,
                                         .weight = positions_.weight,
                                         .dropout = mask,
                                         .seq_length = pass.stream_length(context_)});
}

void Embedding::embed_backward(const Pass& pass, const Tensor& dx) const {
    const bool trains_rows = tokens_.trained() || virtual_tokens_.present();
    if (!trains_rows && !positions_.trained()) return;
    const Dropout mask = dropout(pass);
    if (positions_.trained() || mask.probability > 0) {
        context_.backend.run(PositionBackward{.dx = dx,
                                              .positions = pass.batch.stream_positions,
                                              .dweight = positions_.grad,
                                              .dropout = mask,
                                              .seq_length = pass.stream_length(context_)});
    }
    if (!trains_rows) return;
    const ArenaFrame frame(context_.workspace());
    const Tensor whole = gather_rows(context_, dx);
    if (virtual_tokens_.present()) virtual_tokens_.backward(pass.batch.ids, whole);
    if (!tokens_.trained()) return;
    context_.backend.run(EmbeddingBackward{.ids = pass.batch.ids,
                                           .dx = whole,
                                           .dweight = tokens_.grad,
                                           .vocab_begin = vocab_begin_,
                                           .scale = token_scale()});
}

}  // namespace gptrain
