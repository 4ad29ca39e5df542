#include "model/soft_prompt.h"

#include <algorithm>

namespace gptrain {

std::array<PromptEncoder::Values, 3> PromptEncoder::run(const Tensor& embeddings,
                                                        Arena& arena) const {
    std::array<Values, 3> values;
    Tensor x = embeddings;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto& [weight, bias] = layers_[i];
        if (i > 0) {
            const Tensor& u = values[i - 1].y;
            x = arena.allocate(u.dtype(), u.shape());
            backend_.run(ActivationForward{.activation = Activation::relu, .u = u, .y = x});
        }
        values[i] = {.x = x, .y = arena.allocate(x.dtype(), {x.size(0), weight.outputs()})};
        backend_.run(
            LinearForward{.x = x, .weight = weight.weight, .bias = bias.weight, .y = values[i].y});
    }
    return values;
}

Tensor PromptEncoder::encode(const Tensor& embeddings, Arena& arena) const {
    return run(embeddings, arena).back().y;
}

Tensor PromptEncoder::backward(const Tensor& embeddings, const Tensor& dtable, Arena& arena) const {
    const std::array<Values, 3> values = run(embeddings, arena);
    Tensor dy = dtable;
    for (std::size_t i = values.size(); i-- > 0;) {
        const auto& [weight, bias] = layers_[i];
        if (i + 1 < values.size()) {
            backend_.run(ActivationBackward{
                .activation = Activation::relu, .u = values[i].y, .dy = dy, .du = dy});
        }
        backend_.run(LinearWeightGrad{
            .x = values[i].x, .dy = dy, .dweight = weight.grad, .dbias = bias.grad});
        const Tensor dx = arena.allocate(dy.dtype(), values[i].x.shape());
        backend_.run(
            LinearInputGrad{.dy = dy, .weight = weight.weight, .gelu_input = {}, .dx = dx});
        dy = dx;
    }
    return dy;
}

VirtualTokens::VirtualTokens(const ModelContext& context, const Parameters& parameters)
    : context_(context), table_(parameters.group("prompt.weight")) {
    if (!present()) return;
    const std::int64_t tokens = context.shape.prompt->tokens;
    const std::int64_t share = div_ceil(tokens, context.mesh.tp().size());
    first_id_ = std::min(context.mesh.tp().rank() * share, tokens) - tokens;
    for (std::size_t i = 0; i < layers_.size() && encodes(); ++i) {
        const std::string name = text("prompt.encoder.", i);
        layers_[i] = {.weight = parameters.group(name + ".weight"),
                      .bias = parameters.group(name + ".bias")};
    }
}

void VirtualTokens::add(const Tensor& ids, const Tensor& x) const {
    if (!has_rows()) return;
    const ArenaFrame frame(context_.workspace());
    const Tensor table =
        encodes() ? encoder().encode(table_.weight, context_.workspace()) : table_.weight;
    const Tensor rows = context_.temporary(x.shape());
    context_.backend.run(
        EmbeddingForward{.ids = ids, .weight = table, .vocab_begin = first_id_, .x = rows});
    context_.backend.run(Add{.x = x, .y = rows});
}

void VirtualTokens::backward(const Tensor& ids, const Tensor& dx) const {
    if (!has_rows()) return;
    Backend& backend = context_.backend;
    if (!encodes()) {
        backend.run(EmbeddingBackward{
            .ids = ids, .dx = dx, .dweight = table_.grad, .vocab_begin = first_id_});
        return;
    }
    const ArenaFrame frame(context_.workspace());
    const Shape& shape = table_.weight.shape();
    const Tensor sums = context_.temporary_f32(shape);
    backend.run(Fill{.x = sums, .value = 0});
    backend.run(EmbeddingBackward{.ids = ids, .dx = dx, .dweight = sums, .vocab_begin = first_id_});
    const Tensor dtable = context_.temporary(shape);
    backend.run(Cast{.to = dtable, .from = sums});
    const Tensor gradient = encoder().backward(table_.weight, dtable, context_.workspace());
    backend.run(Cast{.to = sums, .from = gradient});
    backend.run(Add{.x = table_.grad, .y = sums});
}

}  // namespace gptrain
