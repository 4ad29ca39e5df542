#include "model/linear.h"

namespace gptrain {

Linear::Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
               Split split)
    : context_(context),
      weight_(parameters.group(name + ".weight")),
      bias_(parameters.group(name + ".bias")),
      split_(split) {
    GPTRAIN_CHECK(!weight_.weight.empty(), "no parameters named ", name);
}

void Linear::forward(const Tensor& x, const Tensor& y) const {
    Communicator& tp = context_.mesh.tp();
    const bool partial = split_ == Split::row && tp.size() > 1;
    context_.backend.linear_forward(
        {.x = x, .weight = weight_.weight, .bias = partial ? Tensor() : bias_.weight, .y = y});
    if (!partial) return;
    tp.all_reduce(y, Reduce::sum).wait();
    if (!bias_.weight.empty()) context_.backend.add_bias(y, bias_.weight);
}

void Linear::backward(const Backward& args, BackwardPart part) const {
    Pending sum;
    if (part != BackwardPart::weights) {
        context_.backend.linear_input_grad({.dy = args.dy,
                                            .weight = weight_.weight,
                                            .gelu_input = args.gelu_input,
                                            .dx = args.dx});
        if (split_ == Split::column) sum = context_.mesh.tp().all_reduce(args.dx, Reduce::sum);
    }
    if (part == BackwardPart::inputs && !bias_.grad.empty()) {
        context_.backend.bias_grad(args.dy, bias_.grad);
    }
    if (part != BackwardPart::inputs) {
        const bool with_bias = part == BackwardPart::whole;
        context_.backend.linear_weight_grad({.x = args.x,
                                             .dy = args.dy,
                                             .dweight = weight_.grad,
                                             .dbias = with_bias ? bias_.grad : Tensor()});
    }
    sum.wait();
}

}  // namespace gptrain
