#include "model/linear.h"

#include <optional>
#include <utility>

#include "model/quantised_weight.h"
#include "model/slices.h"

namespace gptrain {

Linear::Linear(const ModelContext& context, const Parameters& parameters, const std::string& name,
               Split split, const LoraSite& site)
    : context_(context),
      weight_(parameters.group(name + ".weight")),
      bias_(parameters.group(name + ".bias")),
      split_(split),
      lora_(context, parameters, name, site,
            split == Split::row ? context.mesh.tp().rank() * weight_.inputs() : 0) {
    GPTRAIN_CHECK(weight_.present(), "no parameters named ", name);
}

bool Linear::keeps_columns() const {
    const bool gathers = split_ == Split::column && context_.sequence_parallel;
    return one_scale() && gradient8() && weight_.trained() && !has_adapter() && !gathers;
}

LinearOperand Linear::reserve_input(Arena& arena, const Shape& shape) const {
    LinearOperand x;
    if (keeps_columns()) {
        x.columns8.columnwise = arena.allocate(DType::f8e4m3, {shape[1], shape[0]});
        x.columns8.scale = arena.allocate(DType::f32, {1});
    } else {
        x.values = arena.allocate(context_.compute, shape);
    }
    return x;
}

LinearOperand Linear::with_rows8(LinearOperand x, const Shape& shape) const {
    if (takes_x8()) x.rows8 = context_.temporary_rows8(shape);
    return x;
}

void Linear::multiply(const Tensor& weight, const Factor& x, const Tensor& bias, const Tensor& y,
                      const Tensor& a) const {
    if (quantised() && weight.empty()) {
        GPTRAIN_CHECK(a.empty(), "activation epilogue on a quantised weight");
        return multiply_few(context_.backend, weight_, x.values, bias, y);
    }
    LinearForward args = {.x = x.values, .weight = weight, .bias = bias, .y = y};
    (gated(context_.shape.activation) ? args.swiglu : args.gelu) = a;
    const ArenaFrame frame(context_.workspace());
    if (fp8()) {
        GPTRAIN_CHECK(a.empty(), "activation epilogue on an FP8 GEMM");
        args.x = {};
        args.x8 = x.in8.empty() ? in_blocks(x.values) : x.in8;
        args.weight8 = weight_.weight8;
    }
    context_.backend.run(args);
}

Linear::Factor Linear::to_gather(const LinearOperand& slice, DType format) const {
    if (!gathers_fp8()) return {.values = slice.values, .in8 = {}};
    // A gather takes one round of messages, and a maximum would take two.
    Communicator& tp = context_.mesh.tp();
    const Tensor amaxes = context_.workspace().allocate(DType::f32, {1 + tp.size()});
    context_.backend.run(Fill{.x = amaxes, .value = 0});
    const Tensor amax = amaxes.slice(0, 0, 1);
    const Tensor of_ranks = amaxes.slice(0, 1, tp.size());
    const Tensor own = of_ranks.slice(0, tp.rank(), 1);
    context_.backend.run(
        UpdateAmax{.x = slice.amax.empty() ? slice.values : slice.amax, .amax = own});
    tp.all_gather(of_ranks, own, 0).wait();
    context_.backend.run(UpdateAmax{.x = of_ranks, .amax = amax});
    const Fp8Matrix rows = converted({.values = slice.values, .amax = amax, .columns8 = {}},
                                     {.format = format, .rowwise = true, .columnwise = false});
    return {.values = rows.rowwise, .in8 = rows};
}

Fp8Matrix Linear::transposed(const Fp8Matrix& x) const {
    const Shape& shape = x.rowwise.shape();
    const Tensor columns = context_.workspace().allocate(x.rowwise.dtype(), {shape[1], shape[0]});
    context_.backend.run(TransposeFp8{.rowwise = x.rowwise, .columnwise = columns});
    return {.rowwise = x.rowwise, .columnwise = columns, .scale = x.scale};
}

void Linear::forward(const LinearOperand& x, const Tensor& y, const Pass& pass,
                     const Tensor& a) const {
    const ArenaFrame frame(context_.workspace());
    if (split_ == Split::column) return column_forward(x, y, pass, a);
    GPTRAIN_CHECK(a.empty(), "activation epilogue on a row-parallel layer");
    row_forward(x, y, pass);
}

void Linear::column_forward(const LinearOperand& x, const Tensor& y, const Pass& pass,
                            const Tensor& a) const {
    GPTRAIN_CHECK(a.empty() || !has_adapter(), "activation epilogue before the adapter");
    const Tensor weight = forward_weight(context_, weight_, y.size(0));
    const Factor slice = to_gather(x, DType::f8e4m3);
    ArrivingRows rows(context_, slice.values);
    Fp8Matrix x8 = x.rows8;
    if (gathers_fp8()) {
        x8 = {.rowwise = rows.whole(), .columnwise = {}, .scale = slice.in8.scale};
    } else if (one_scale()) {
        rows.wait();
        x8 = converted(
            {.values = rows.whole(), .amax = amax_of_all_rows(context_, x), .columns8 = x.columns8},
            {.format = DType::f8e4m3, .rowwise = true, .columnwise = false});
    }
    for (const std::int64_t i : rows.order()) {
        rows.wait(i);
        multiply(weight,
                 {.values = rows_of_piece(context_, rows.whole(), i),
                  .in8 = rows_of_piece(context_, x8, i)},
                 bias_.weight, rows_of_piece(context_, y, i), rows_of_piece(context_, a, i));
    }
    if (has_adapter()) lora_.up(lora_.down(rows.whole(), pass), y);
}

void Linear::row_forward(const LinearOperand& x, const Tensor& y, const Pass& pass) const {
    const Tensor& any = x.values.empty() ? x.rows8.rowwise : x.values;
    const Tensor weight = forward_weight(context_, weight_, any.size(0));
    Tensor h;
    if (has_adapter()) h = lora_.down(x.values, pass);
    Fp8Matrix x8 = x.rows8;
    if (one_scale())
        x8 = converted(x, {.format = DType::f8e4m3, .rowwise = true, .columnwise = false});
    if (context_.mesh.tp().size() == 1) {
        multiply(weight, {.values = x.values, .in8 = x8}, bias_.weight, y);
        if (has_adapter()) lora_.up(h, y);
        return;
    }
    const Tensor sum = allocate_whole(context_, y);
    LeavingRows rows(context_, y, sum);
    for (const std::int64_t i : rows.order()) {
        const Tensor part = rows_of_piece(context_, sum, i);
        multiply(
            weight,
            {.values = rows_of_piece(context_, x.values, i), .in8 = rows_of_piece(context_, x8, i)},
            {}, part);
        if (has_adapter()) lora_.up(rows_of_piece(context_, h, i), part);
        rows.send(i);
    }
    rows.wait();
    if (!bias_.weight.empty()) context_.backend.run(AddBias{.y = y, .bias = bias_.weight});
}

Fp8Matrix Linear::converted(const LinearOperand& x, const Forms& forms,
                            const Tensor& row_sum) const {
    Arena& workspace = context_.workspace();
    Backend& backend = context_.backend;
    const Shape& shape = x.values.shape();
    Tensor amax = x.amax;
    if (amax.empty()) {
        amax = workspace.allocate(DType::f32, {1});
        backend.run(Fill{.x = amax, .value = 0});
        backend.run(UpdateAmax{.x = x.values, .amax = amax});
    }
    Fp8Matrix out = x.columns8;
    if (out.scale.empty()) out.scale = workspace.allocate(DType::f32, {1});
    if (forms.rowwise) out.rowwise = workspace.allocate(forms.format, shape);
    if (forms.columnwise) out.columnwise = workspace.allocate(forms.format, {shape[1], shape[0]});
    backend.run(ToFp8{.x = x.values, .amax = amax, .out = out, .row_sum = row_sum});
    return out;
}

Fp8Matrix Linear::in_blocks(const Tensor& x) const {
    const Fp8Matrix out = context_.temporary_rows8(x.shape());
    context_.backend.run(ToFp8Rows{.x = x, .out = out});
    return out;
}

Fp8Matrix Linear::columns_in_blocks(const Tensor& x, const Tensor& row_sum) const {
    Arena& workspace = context_.workspace();
    const Shape shape = {x.size(1), x.size(0)};
    const Fp8Matrix out = {
        .rowwise = {},
        .columnwise = workspace.allocate(DType::f8e4m3, shape),
        .scale = {},
        .column_scale = workspace.allocate(DType::f32, fp8_row_scales(shape[0], shape[1]))};
    context_.backend.run(ToFp8Columns{.x = x, .out = out, .row_sum = row_sum});
    return out;
}

void Linear::input_grad(const Tensor& weight, const Backward& args, const LoraLayer::Gradient& lora,
                        const Fp8Matrix& dy8) const {
    const bool to_du = !args.du.empty();
    LinearInputGrad grad = {.dy = args.dy.values,
                            .weight = weight,
                            .gelu_input = to_du ? Tensor() : args.activation_input,
                            .dx = args.dx,
                            .swiglu_input = to_du ? args.activation_input : Tensor(),
                            .du = args.du};
    const ArenaFrame frame(context_.workspace());
    if (fp8()) {
        GPTRAIN_CHECK(args.activation_input.empty(), "activation epilogue on an FP8 GEMM");
        grad.dy = {};
        grad.dy8 = dy8.empty() ? in_blocks(args.dy.values) : dy8;
        grad.weight8 = weight_.weight8;
    }
    context_.backend.run(grad);
    if (!lora.dh.empty()) lora_.input_grad(lora, args.dx);
}

LoraLayer::Gradient Linear::adapter_gradient(const Tensor& dy, const Pass& pass,
                                             BackwardPart part) const {
    if (!has_adapter()) return {};
    return lora_.gradient(dy, pass, part);
}

LoraLayer::Gradient Linear::piece_of(const LoraLayer::Gradient& lora, std::int64_t i) const {
    return {.dh = rows_of_piece(context_, lora.dh, i),
            .dropped = rows_of_piece(context_, lora.dropped, i)};
}

Linear::BiasOp Linear::bias_op(BackwardPart part) const {
    if (part == BackwardPart::weights || !bias_.trained()) return BiasOp::none;
    // The bias of a row layer was added to this rank's slice only.
    if (split_ == Split::row && context_.sequence_parallel) return BiasOp::own;
    if (one_scale()) return BiasOp::conversion;
    return part == BackwardPart::whole && weight_.trained() ? BiasOp::weight_grad : BiasOp::own;
}

Tensor Linear::dbias_of(BiasOp op, BackwardPart part) const {
    return bias_op(part) == op ? bias_.grad : Tensor();
}

void Linear::weight_grad(const Backward& args, const Pass& pass, BackwardPart part,
                         const Fp8Matrix& dy8) const {
    if (!weight_.trained()) return;
    const ArenaFrame frame(context_.workspace());
    LinearWeightGrad grad = {.x = args.x.values,
                             .dy = args.dy.values,
                             .dweight = weight_.grad,
                             .dbias = dbias_of(BiasOp::weight_grad, part),
                             .accumulate = !(pass.first_gradients && weight_.storage.overwritten)};
    if (gradient8()) {
        if (one_scale()) {
            const Forms columns = {.format = DType::f8e4m3, .rowwise = false, .columnwise = true};
            grad.x8 = args.x.columns8.empty() ? converted(args.x, columns) : args.x.columns8;
            grad.dy8 = dy8;
        } else {
            grad.x8 = columns_in_blocks(grad.x);
            grad.dy8 = columns_in_blocks(grad.dy, std::exchange(grad.dbias, {}));
        }
        grad.x = grad.dy = {};
    }
    context_.backend.run(grad);
}

Linear::Backward Linear::piece_of(const Backward& args, std::int64_t i) const {
    const auto piece = [&](const Tensor& x) { return rows_of_piece(context_, x, i); };
    return {.x = {},
            .dy = {.values = piece(args.dy.values), .amax = args.dy.amax},
            .dx = piece(args.dx),
            .activation_input = piece(args.activation_input),
            .du = piece(args.du)};
}

void Linear::bias_grad(const Tensor& dy, BackwardPart part) const {
    const Tensor dbias = dbias_of(BiasOp::own, part);
    if (!dbias.empty()) context_.backend.run(BiasGrad{.dy = dy, .dbias = dbias});
}

Fp8Matrix Linear::converted_gradient(const LinearOperand& dy, BackwardPart part) const {
    if (!one_scale()) return dy.rows8;
    const Forms forms = {
        .format = DType::f8e5m2,
        .rowwise = part != BackwardPart::weights,
        .columnwise = part != BackwardPart::inputs && weight_.trained() && gradient8()};
    if (!forms.rowwise && !forms.columnwise) return {};
    return converted(dy, forms, dbias_of(BiasOp::conversion, part));
}

void Linear::column_backward(const Backward& args, const Pass& pass, BackwardPart part) const {
    const bool inputs = part != BackwardPart::weights;
    const bool weights = part != BackwardPart::inputs && needs_input();
    const Fp8Matrix dy8 = converted_gradient(args.dy, part);
    Backward whole = args;
    Factor slice;
    Tensor x;  // of all rows
    Pending gathered;
    if (weights) {
        slice = to_gather(args.x, DType::f8e4m3);
        x = allocate_whole(context_, slice.values);
        if (context_.sequence_parallel) gathered = gather_slices(context_, x, slice.values);
    }
    if (inputs) whole.dx = allocate_whole(context_, args.dx);
    const Tensor weight = inputs ? whole_weight(context_, weight_) : Tensor();
    const LoraLayer::Gradient lora = adapter_gradient(args.dy.values, pass, part);
    Pending sum;
    std::optional<LeavingRows> rows;
    if (part == BackwardPart::whole) {
        // The weight gradient hides the whole sum.
        input_grad(weight, whole, lora, dy8);
        sum = reduce_parts(context_, args.dx, whole.dx);
    } else if (inputs) {
        rows.emplace(context_, args.dx, whole.dx);
        for (const std::int64_t i : rows->order()) {
            input_grad(weight, piece_of(whole, i), piece_of(lora, i),
                       rows_of_piece(context_, dy8, i));
            rows->send(i);
        }
    }
    bias_grad(args.dy.values, part);
    if (weights) {
        gathered.wait();
        whole.x = {
            .values = x, .amax = amax_of_all_rows(context_, args.x), .columns8 = args.x.columns8};
        if (gathers_fp8())
            whole.x.columns8 =
                transposed({.rowwise = x, .columnwise = {}, .scale = slice.in8.scale});
        weight_grad(whole, pass, part, dy8);
        if (has_adapter()) lora_.weight_grad(whole.x.values, args.dy.values, lora, pass);
    }
    sum.wait();
    if (rows) rows->wait();
}

void Linear::row_backward(const Backward& args, const Pass& pass, BackwardPart part) const {
    const bool inputs = part != BackwardPart::weights;
    const bool weights = part != BackwardPart::inputs && needs_input();
    Backward whole = args;
    const Factor slice = to_gather(args.dy, DType::f8e5m2);
    ArrivingRows dy(context_, slice.values);
    whole.dy = {.values = dy.whole(), .amax = amax_of_all_rows(context_, args.dy)};
    Fp8Matrix dy8 = args.dy.rows8;
    if (gathers_fp8()) {
        dy8 = {.rowwise = dy.whole(), .columnwise = {}, .scale = slice.in8.scale};
    } else if (one_scale()) {
        dy.wait();
        dy8 = converted_gradient(whole.dy, part);
    }
    const Tensor weight = inputs ? whole_weight(context_, weight_) : Tensor();
    if (inputs) {
        for (const std::int64_t i : dy.order()) {
            dy.wait(i);
            input_grad(weight, piece_of(whole, i), {}, rows_of_piece(context_, dy8, i));
        }
    }
    dy.wait();
    const LoraLayer::Gradient lora = adapter_gradient(whole.dy.values, pass, part);
    if (inputs && has_adapter()) lora_.input_grad(lora, whole.dx);
    bias_grad(args.dy.values, part);
    if (!weights) return;
    if (gathers_fp8()) dy8 = transposed(dy8);
    weight_grad(whole, pass, part, dy8);
    if (has_adapter()) lora_.weight_grad(args.x.values, whole.dy.values, lora, pass);
}

void Linear::backward(const Backward& args, const Pass& pass, BackwardPart part) const {
    if (part == BackwardPart::weights && !needs_input()) return;
    GPTRAIN_CHECK(args.activation_input.empty() || !has_adapter(),
                  "activation epilogue before the adapter");
    const ArenaFrame frame(context_.workspace());
    split_ == Split::column ? column_backward(args, pass, part) : row_backward(args, pass, part);
}

}  // namespace gptrain
