#include "model/linear.h"

#include "model/slices.h"

namespace gptrain {

Linear::Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
               Split split)
    : context_(context),
      weight_(parameters.group(name + ".weight")),
      bias_(parameters.group(name + ".bias")),
      split_(split) {
    GPTRAIN_CHECK(weight_.present(), "no parameters named ", name);
}

void Linear::multiply(const WithAmax& x, const Tensor& bias, const Tensor& y,
                      const Tensor& gelu) const {
    LinearForward args = {
        .x = x.values, .weight = weight_.weight, .bias = bias, .y = y, .gelu = gelu};
    if (fp8()) {
        GPTRAIN_CHECK(gelu.empty(), "GELU epilogue on an FP8 GEMM");
        args.x = {};
        args.x8 = converted(x, DType::f8e4m3, true, false);
        args.weight8 = weight_.weight8;
    }
    context_.backend.run(args);
}

void Linear::forward(const WithAmax& x, const Tensor& y, const Tensor& gelu) const {
    const ArenaFrame frame(context_.workspace());
    GPTRAIN_CHECK(gelu.empty() || split_ == Split::column, "GELU epilogue on a row-parallel layer");
    if (split_ == Split::column) {
        multiply(gather_rows(context_, x), bias_.weight, y, gelu);
    } else if (context_.mesh.tp().size() == 1) {
        multiply(x, bias_.weight, y);
    } else {
        const Tensor part = allocate_whole(context_, y);
        multiply(x, {}, part);
        reduce_parts(context_, y, part).wait();
        if (!bias_.weight.empty()) context_.backend.run(AddBias{.y = y, .bias = bias_.weight});
    }
}

Fp8Matrix Linear::converted(const WithAmax& x, DType format, bool rows, bool columns) const {
    Arena& workspace = context_.workspace();
    Backend& backend = context_.backend;
    const Shape& shape = x.values.shape();
    Tensor amax = x.amax;
    if (amax.empty()) {
        amax = workspace.allocate(DType::f32, {1});
        backend.run(Fill{.x = amax, .value = 0});
        backend.run(UpdateAmax{.x = x.values, .amax = amax});
    }
    Fp8Matrix out;
    out.scale = workspace.allocate(DType::f32, {1});
    if (rows) out.rows = workspace.allocate(format, shape);
    if (columns) out.columns = workspace.allocate(format, {shape[1], shape[0]});
    backend.run(ToFp8{.x = x.values, .amax = amax, .out = out});
    return out;
}

void Linear::input_grad(const Backward& args, const Fp8Matrix& dy8) const {
    Backend& backend = context_.backend;
    if (!fp8()) {
        backend.run(LinearInputGrad{.dy = args.dy.values,
                                    .weight = weight_.weight,
                                    .gelu_input = args.gelu_input,
                                    .dx = args.dx});
        return;
    }
    GPTRAIN_CHECK(args.gelu_input.empty(), "GELU epilogue on an FP8 GEMM");
    backend.run(LinearInputGrad{.dy = {},
                                .weight = {},
                                .gelu_input = {},
                                .dx = args.dx,
                                .dy8 = dy8,
                                .weight8 = weight_.weight8});
}

void Linear::weight_grad(const Backward& args, const Tensor& dbias, const Fp8Matrix& dy8) const {
    Backend& backend = context_.backend;
    if (!fp8()) {
        backend.run(LinearWeightGrad{
            .x = args.x.values, .dy = args.dy.values, .dweight = weight_.grad, .dbias = dbias});
        return;
    }
    const ArenaFrame frame(context_.workspace());
    backend.run(LinearWeightGrad{.x = {},
                                 .dy = {},
                                 .dweight = weight_.grad,
                                 .dbias = {},
                                 .x8 = converted(args.x, DType::f8e4m3, false, true),
                                 .dy8 = dy8});
    if (!dbias.empty()) backend.run(BiasGrad{.dy = args.dy.values, .dbias = dbias});
}

void Linear::column_backward(const Backward& args, BackwardPart part) const {
    Fp8Matrix dy8;
    if (fp8()) {
        dy8 = converted(args.dy, DType::f8e5m2, part != BackwardPart::weights,
                        part != BackwardPart::inputs);
    }
    Backward whole = args;
    Pending gathered;
    if (part != BackwardPart::inputs) {
        whole.x = {allocate_whole(context_, args.x.values), amax_of_all_rows(context_, args.x)};
        if (context_.sequence_parallel)
            gathered = gather_slices(context_, whole.x.values, args.x.values);
    }
    Pending sum;
    if (part != BackwardPart::weights) {
        whole.dx = allocate_whole(context_, args.dx);
        input_grad(whole, dy8);
        sum = reduce_parts(context_, args.dx, whole.dx);
    }
    if (part == BackwardPart::inputs && !bias_.grad.empty()) {
        context_.backend.run(BiasGrad{.dy = args.dy.values, .dbias = bias_.grad});
    }
    if (part != BackwardPart::inputs) {
        gathered.wait();
        weight_grad(whole, part == BackwardPart::whole ? bias_.grad : Tensor(), dy8);
    }
    sum.wait();
}

void Linear::row_backward(const Backward& args, BackwardPart part) const {
    Backward whole = args;
    whole.dy = gather_rows(context_, args.dy);
    Fp8Matrix dy8;
    if (fp8()) {
        dy8 = converted(whole.dy, DType::f8e5m2, part != BackwardPart::weights,
                        part != BackwardPart::inputs);
    }
    if (part != BackwardPart::weights) input_grad(whole, dy8);
    // With sequence parallelism the bias was added to this rank's slice only.
    const bool with_weights = part == BackwardPart::whole && !context_.sequence_parallel;
    if (part != BackwardPart::weights && !with_weights && !bias_.grad.empty()) {
        context_.backend.run(BiasGrad{.dy = args.dy.values, .dbias = bias_.grad});
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
