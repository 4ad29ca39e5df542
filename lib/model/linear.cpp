#include "model/linear.h"

#include "model/slices.h"

namespace gptrain {

Linear::Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
               Split split)
    : context_(context),
      weight_(parameters.group(name + ".weight")),
      bias_(parameters.group(name + ".bias")),
      split_(split) {
    GPTRAIN_CHECK(weight_.given(), "no parameters named ", name);
}

void Linear::product(const Measured& x, const Tensor& bias, const Tensor& y,
                     const Tensor& gelu) const {
    LinearForward args = {
        .x = x.values, .weight = weight_.weight, .bias = bias, .y = y, .gelu = gelu};
    if (float8()) {
        GPTRAIN_CHECK(gelu.empty(), "a gelu behind a product in 8 bits");
        args.x = {};
        args.x8 = converted(x, DType::f8e4m3, true, false);
        args.weight8 = weight_.weight8;
    }
    context_.backend.linear_forward(args);
}

void Linear::forward(const Measured& x, const Tensor& y, const Tensor& gelu) const {
    const ArenaFrame frame(context_.workspace());
    GPTRAIN_CHECK(gelu.empty() || split_ == Split::column, "a gelu of parts of a sum");
    if (split_ == Split::column) {
        product(whole_rows(context_, x), bias_.weight, y, gelu);
    } else if (context_.mesh.tp().size() == 1) {
        product(x, bias_.weight, y);
    } else {
        const Tensor part = memory_of_whole(context_, y);
        product(x, {}, part);
        sum_parts(context_, y, part).wait();
        if (!bias_.weight.empty()) context_.backend.add_bias(y, bias_.weight);
    }
}

Float8Matrix Linear::converted(const Measured& x, DType format, bool rows, bool columns) const {
    Arena& workspace = context_.workspace();
    Backend& backend = context_.backend;
    const Shape& shape = x.values.shape();
    Tensor maximum = x.maximum;
    if (maximum.empty()) {
        maximum = workspace.allocate(DType::f32, {1});
        backend.fill(maximum, 0);
        backend.absolute_maximum(x.values, maximum);
    }
    Float8Matrix out;
    out.scale = workspace.allocate(DType::f32, {1});
    if (rows) out.rows = workspace.allocate(format, shape);
    if (columns) out.columns = workspace.allocate(format, {shape[1], shape[0]});
    backend.to_float8({.x = x.values, .maximum = maximum, .out = out});
    return out;
}

void Linear::input_grad(const Backward& args, const Float8Matrix& dy8) const {
    Backend& backend = context_.backend;
    if (!float8()) {
        backend.linear_input_grad({.dy = args.dy.values,
                                   .weight = weight_.weight,
                                   .gelu_input = args.gelu_input,
                                   .dx = args.dx});
        return;
    }
    GPTRAIN_CHECK(args.gelu_input.empty(), "a gelu behind a product in 8 bits");
    backend.linear_input_grad({.dy = {},
                               .weight = {},
                               .gelu_input = {},
                               .dx = args.dx,
                               .dy8 = dy8,
                               .weight8 = weight_.weight8});
}

void Linear::weight_grad(const Backward& args, const Tensor& dbias, const Float8Matrix& dy8) const {
    Backend& backend = context_.backend;
    if (!float8()) {
        backend.linear_weight_grad(
            {.x = args.x.values, .dy = args.dy.values, .dweight = weight_.grad, .dbias = dbias});
        return;
    }
    const ArenaFrame frame(context_.workspace());
    backend.linear_weight_grad({.x = {},
                                .dy = {},
                                .dweight = weight_.grad,
                                .dbias = {},
                                .x8 = converted(args.x, DType::f8e4m3, false, true),
                                .dy8 = dy8});
    if (!dbias.empty()) backend.bias_grad(args.dy.values, dbias);
}

void Linear::column_backward(const Backward& args, BackwardPart part) const {
    Float8Matrix dy8;
    if (float8()) {
        dy8 = converted(args.dy, DType::f8e5m2, part != BackwardPart::weights,
                        part != BackwardPart::inputs);
    }
    Backward whole = args;
    Pending gathered;
    if (part != BackwardPart::inputs) {
        whole.x = {memory_of_whole(context_, args.x.values), maximum_of_whole(context_, args.x)};
        if (context_.sequence_parallel)
            gathered = gather_slices(context_, whole.x.values, args.x.values);
    }
    Pending sum;
    if (part != BackwardPart::weights) {
        whole.dx = memory_of_whole(context_, args.dx);
        input_grad(whole, dy8);
        sum = sum_parts(context_, args.dx, whole.dx);
    }
    if (part == BackwardPart::inputs && !bias_.grad.empty()) {
        context_.backend.bias_grad(args.dy.values, bias_.grad);
    }
    if (part != BackwardPart::inputs) {
        gathered.wait();
        weight_grad(whole, part == BackwardPart::whole ? bias_.grad : Tensor(), dy8);
    }
    sum.wait();
}

void Linear::row_backward(const Backward& args, BackwardPart part) const {
    Backward whole = args;
    whole.dy = whole_rows(context_, args.dy);
    Float8Matrix dy8;
    if (float8()) {
        dy8 = converted(whole.dy, DType::f8e5m2, part != BackwardPart::weights,
                        part != BackwardPart::inputs);
    }
    if (part != BackwardPart::weights) input_grad(whole, dy8);
    // With sequence parallelism the bias was added to this rank's slice only.
    const bool with_weights = part == BackwardPart::whole && !context_.sequence_parallel;
    if (part != BackwardPart::weights && !with_weights && !bias_.grad.empty()) {
        context_.backend.bias_grad(args.dy.values, bias_.grad);
    }
    if (part != BackwardPart::inputs) {
        weight_grad(whole, with_weights ? bias_.grad : Tensor(), dy8);
    }
}

void Linear::backward(const Backward& args, BackwardPart part) const {
    const ArenaFrame frame(context_.workspace());
    split_ == Split::column ? column_backward(args, part) : row_backward(args, part);
}

}  // namespace gptrain
