#include "model/lora.h"

namespace gptrain {

LoraLayer::LoraLayer(const ModelContext& context, const Parameters& parameters,
                     const std::string& name, const LoraSite& site, std::int64_t feature_begin)
    : context_(context),
      site_(site),
      feature_begin_(feature_begin),
      a_(parameters.group(text(name, lora_a_suffix))) {
    if (!a_.present()) return;
    const std::string b_name = text(name, lora_b_suffix);
    const GroupTensors b = parameters.group(b_name);
    std::int64_t column = 0;
    std::int64_t row = 0;
    const std::vector<GroupRows> adapted = parameters.rows_of(b_name);
    for (const GroupRows& output : parameters.rows_of(name + ".weight")) {
        const std::size_t i = outputs_.size();
        if (i < adapted.size() && adapted[i].parameter == output.parameter) {
            outputs_.push_back({column, b.weight.slice(0, row, output.count),
                                b.trained() ? b.grad.slice(0, row, output.count) : Tensor()});
            row += output.count;
        }
        column += output.count;
    }
    GPTRAIN_CHECK(outputs_.size() == adapted.size(), b_name, " adapts other outputs");
}

Tensor LoraLayer::part_of(const Tensor& h, std::size_t i) const {
    const std::int64_t rank = outputs_[i].weight.size(1);
    return h.slice(1, static_cast<std::int64_t>(i) * rank, rank);
}

Tensor LoraLayer::columns_of(const Output& output, const Tensor& y) const {
    return y.slice(1, output.begin, output.weight.size(0));
}

Dropout LoraLayer::dropout(const Pass& pass) const {
    Dropout dropout = pass.dropout(context_, site_.site, site_.layer);
    dropout.probability = pass.training ? static_cast<float>(context_.shape.lora->dropout) : 0.0f;
    dropout.rows = context_.batch_rows;
    dropout.feature_begin = feature_begin_;
    return dropout;
}

void LoraLayer::drop(const Tensor& x, const Tensor& y, const Pass& pass) const {
    context_.backend.run(ApplyDropout{
        .x = x, .dropout = dropout(pass), .y = y, .seq_length = pass.batch.seq_length()});
}

Tensor LoraLayer::dropped(const Tensor& x, const Pass& pass) const {
    if (dropout(pass).probability == 0) return x;
    const Tensor y = context_.temporary(x.shape());
    drop(x, y, pass);
    return y;
}

void LoraLayer::scale(const Tensor& h) const {
    const auto factor = static_cast<float>(context_.shape.lora->scale);
    if (factor != 1) context_.backend.run(Combine{.x = h, .y = h, .a = factor, .b = 0});
}

void LoraLayer::multiply(const Tensor& dropped, const Tensor& h) const {
    context_.backend.run(LinearForward{.x = dropped, .weight = a_.weight, .bias = {}, .y = h});
    scale(h);
}

Tensor LoraLayer::down(const Tensor& x, const Pass& pass) const {
    const Tensor h = context_.temporary({x.size(0), a_.outputs()});
    const ArenaFrame frame(context_.workspace());
    multiply(dropped(x, pass), h);
    return h;
}

void LoraLayer::up(const Tensor& h, const Tensor& y) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Output& output = outputs_[i];
        context_.backend.run(LinearForward{.x = part_of(h, i),
                                           .weight = output.weight,
                                           .bias = {},
                                           .y = columns_of(output, y),
                                           .accumulate = true});
    }
}

Tensor LoraLayer::down_grad(const Tensor& dy) const {
    const Tensor dh = context_.temporary({dy.size(0), a_.outputs()});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Output& output = outputs_[i];
        context_.backend.run(LinearInputGrad{.dy = columns_of(output, dy),
                                             .weight = output.weight,
                                             .gelu_input = {},
                                             .dx = part_of(dh, i)});
    }
    scale(dh);
    return dh;
}

LoraLayer::Gradient LoraLayer::gradient(const Tensor& dy, const Pass& pass,
                                        BackwardPart part) const {
    const Tensor dh = down_grad(dy);
    if (dropout(pass).probability == 0 || part == BackwardPart::weights)
        return {.dh = dh, .dropped = {}};
    const Tensor dx = context_.temporary({dh.size(0), a_.inputs()});
    context_.backend.run(
        LinearInputGrad{.dy = dh, .weight = a_.weight, .gelu_input = {}, .dx = dx});
    drop(dx, dx, pass);
    return {.dh = dh, .dropped = dx};
}

void LoraLayer::input_grad(const Gradient& gradient, const Tensor& dx) const {
    if (!gradient.dropped.empty()) {
        context_.backend.run(Add{.x = dx, .y = gradient.dropped});
        return;
    }
    context_.backend.run(LinearInputGrad{
        .dy = gradient.dh, .weight = a_.weight, .gelu_input = {}, .dx = dx, .accumulate = true});
}

void LoraLayer::weight_grad(const Tensor& x, const Tensor& dy, const Gradient& gradient,
                            const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    const Tensor input = dropped(x, pass);
    const Tensor h = context_.temporary({x.size(0), a_.outputs()});
    multiply(input, h);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        const Output& output = outputs_[i];
        context_.backend.run(LinearWeightGrad{
            .x = part_of(h, i), .dy = columns_of(output, dy), .dweight = output.grad, .dbias = {}});
    }
    context_.backend.run(
        LinearWeightGrad{.x = input, .dy = gradient.dh, .dweight = a_.grad, .dbias = {}});
}

}  // namespace gptrain
