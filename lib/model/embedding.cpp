#include "model/embedding.h"

namespace gptrain {

Embedding::Embedding(const ModelContext& context, const Parameters& parameters)
    : context_(context),
      tokens_(parameters.group("wte.weight")),
      positions_(parameters.group("wpe.weight")) {}

void Embedding::forward(const Pass& pass, const Tensor& x) const {
    context_.backend.embedding_forward(
        {.ids = pass.batch.ids, .weight = tokens_.weight, .vocab_begin = 0, .x = x});
    context_.mesh.tp().all_reduce(x, Reduce::sum).wait();
    const Dropout mask = dropout(pass);
    if (positions_.weight.empty() && mask.probability == 0) return;
    context_.backend.position_forward({.x = x,
                                       .positions = pass.batch.positions,
                                       .weight = positions_.weight,
                                       .dropout = mask,
                                       .seq_length = pass.batch.seq_length()});
}

void Embedding::backward(const Pass& pass, const Tensor& dx) const {
    const Dropout mask = dropout(pass);
    if (!positions_.grad.empty() || mask.probability > 0) {
        context_.backend.position_backward({.dx = dx,
                                            .positions = pass.batch.positions,
                                            .dweight = positions_.grad,
                                            .dropout = mask,
                                            .seq_length = pass.batch.seq_length()});
    }
    context_.backend.embedding_backward(
        {.ids = pass.batch.ids, .dx = dx, .dweight = tokens_.grad, .vocab_begin = 0});
}

}  // namespace gptrain
