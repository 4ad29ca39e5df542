#include "cases.h"
#include "fp8_case.h"

namespace gptrain {
namespace {

using namespace fp8_case;

// FP8 GEMMs need multiples of 16.
constexpr Size sizes[] = {{16, 16, 16}, {32, 48, 64}, {160, 80, 272}, {2048, 1600, 6400, true}};

constexpr Dims matrices[] = {{1, 1},       {7, 13},   {7, 13, 3}, {64, 96},
                             {64, 96, 16}, {33, 130}, {160, 272}, {8192, 4096, 0, true}};

OpCase update_amax(const Dims& size, DType dtype, double before) {
    OpCase op = make_case(
        "amax",
        text(name_of(dtype), " ", size.rows, " x ", size.cols, " gap ", size.gap, ", ", before),
        size.large);
    const auto x = op.input(dtype, {size.rows, size.cols}, random_values(), size.gap);
    const auto largest = op.updated(DType::f32, {1}, constant(before));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(UpdateAmax{.x = at[x], .amax = at[largest]});
    };
    op.reference = [=](Arrays& at) { reference::update_amax(at[x], at[largest]); };
    return op;
}

struct Conversion {
    DType from, to;
    bool rows, columns;
    double amax;  ///< given: of the values, smaller than some of them, or (nearly) 0
    bool sum = false;
};

OpCase convert(const Dims& size, const Conversion& how) {
    OpCase op = make_case("to_fp8",
                          text(name_of(how.from), " to ", name_of(how.to), how.rows ? " rows" : "",
                               how.columns ? " columns" : "", how.sum ? " sum" : "", " ", size.rows,
                               " x ", size.cols, " gap ", size.gap, " amax ", how.amax),
                          size.large);
    op.limits.seq_length = std::max(op.limits.seq_length, size.rows);
    op.limits.widest = std::max(op.limits.widest, size.cols);
    // Magnitudes over many powers of two, down to subnormal numbers of the format.
    const Values spread = [normal = random_values()](std::int64_t i, PhiloxKey stream) {
        return normal(i, stream) * std::ldexp(1, -static_cast<int>(i % 23));
    };
    const auto x = op.input(how.from, {size.rows, size.cols}, spread, size.gap);
    const auto amax = op.input(DType::f32, {1}, constant(how.amax));
    const auto rows = how.rows ? op.output(how.to, {size.rows, size.cols}) : none;
    const auto columns = how.columns ? op.output(how.to, {size.cols, size.rows}) : none;
    const auto scale = op.output(DType::f32, {1});
    const auto sum = how.sum ? op.updated(DType::f32, {size.cols}, random_values()) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(ToFp8{.x = at[x],
                          .amax = at[amax],
                          .out = {at[rows], at[columns], at[scale]},
                          .row_sum = at[sum]});
    };
    op.reference = [=](Arrays& at) {
        reference::to_fp8(at[x], at[amax], at[rows], at[columns], at[scale]);
        if (how.sum) reference::bias_grad(at[x], at[sum]);
    };
    return op;
}

OpCase transpose(const Dims& size, DType dtype) {
    OpCase op = make_case("transpose_fp8", text(name_of(dtype), " ", size.rows, " x ", size.cols),
                          size.large);
    op.limits.seq_length = std::max(op.limits.seq_length, size.rows);
    op.limits.widest = std::max(op.limits.widest, size.cols);
    const auto rows = op.input(dtype, {size.rows, size.cols}, random_values(60));
    const auto columns = op.output(dtype, {size.cols, size.rows});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(TransposeFp8{.rowwise = at[rows], .columnwise = at[columns]});
    };
    op.reference = [=](Arrays& at) {
        for (std::int64_t i = 0; i < at[rows].shape().elements(); ++i)
            at[columns](i % size.cols, i / size.cols) = at[rows](i).value;
    };
    return op;
}

OpCase forward(const Size& size, bool with_bias) {
    OpCase op = product_case(with_bias ? "linear_forward bias" : "linear_forward", size);
    const auto x = op.input(DType::f8e4m3, {size.tokens, size.inputs}, random_values(60));
    const auto x_scale = op.input(DType::f32, {1}, constant(0.013));
    const auto weight = op.input(DType::f8e4m3, {size.outputs, size.inputs}, random_values(60));
    const auto weight_scale = op.input(DType::f32, {1}, constant(0.0021));
    const auto bias = with_bias ? op.input(DType::bf16, {size.outputs}, random_values()) : none;
    const auto y = op.output(DType::bf16, {size.tokens, size.outputs});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{.x = {},
                                  .weight = {},
                                  .bias = at[bias],
                                  .y = at[y],
                                  .x8 = {at[x], {}, at[x_scale]},
                                  .weight8 = {at[weight], {}, at[weight_scale]}});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(reference::from_fp8(at[x], at[x_scale], false),
                                  reference::from_fp8(at[weight], at[weight_scale], false),
                                  at[bias], at[y]);
    };
    return op;
}

OpCase input_grad(const Size& size) {
    OpCase op = product_case("linear_input_grad", size);
    const auto dy = op.input(DType::f8e5m2, {size.tokens, size.outputs}, random_values(9000));
    const auto dy_scale = op.input(DType::f32, {1}, constant(1.7e-7));
    const auto weight = op.input(DType::f8e4m3, {size.inputs, size.outputs}, random_values(60));
    const auto weight_scale = op.input(DType::f32, {1}, constant(0.0021));
    const auto dx = op.output(DType::bf16, {size.tokens, size.inputs});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearInputGrad{.dy = {},
                                    .weight = {},
                                    .gelu_input = {},
                                    .dx = at[dx],
                                    .dy8 = {at[dy], {}, at[dy_scale]},
                                    .weight8 = {{}, at[weight], at[weight_scale]}});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_input_grad(reference::from_fp8(at[dy], at[dy_scale], false),
                                     reference::from_fp8(at[weight], at[weight_scale], true), {},
                                     at[dx]);
    };
    return op;
}

/// With one scale, stored by columns.
struct OneScale {
    Operand values, scale;
    Fp8Matrix columns(const Tensors& at) const { return {{}, at[values], at[scale]}; }
};

OpCase weight_grad(const Size& size, reference::Result result) {
    const bool added = result == reference::Result::added;
    OpCase op = product_case(added ? "linear_weight_grad" : "linear_weight_grad overwrites", size);
    const OneScale x = {op.input(DType::f8e4m3, {size.inputs, size.tokens}, random_values(60)),
                        op.input(DType::f32, {1}, constant(0.013))};
    const OneScale dy = {op.input(DType::f8e5m2, {size.outputs, size.tokens}, random_values(9000)),
                         op.input(DType::f32, {1}, constant(1.7e-7))};
    const Shape shape = {size.outputs, size.inputs};
    const auto dweight =
        added ? op.updated(DType::f32, shape, random_values(0.003)) : op.output(DType::f32, shape);
    run_weight_grad(op, x, dy, dweight, added);
    op.reference = [=](Arrays& at) {
        Array no_bias;
        reference::linear_weight_grad(reference::from_fp8(at[x.values], at[x.scale], true),
                                      reference::from_fp8(at[dy.values], at[dy.scale], true),
                                      at[dweight], no_bias, result);
    };
    return op;
}

}  // namespace

std::vector<OpCase> fp8_cases() {
    std::vector<OpCase> cases;
    for (const Dims& size : matrices) {
        for (const DType dtype : {DType::f8e4m3, DType::f8e5m2})
            if (size.gap == 0) cases.push_back(transpose(size, dtype));
        for (const DType from : compute_dtypes) {
            cases.push_back(update_amax(size, from, 0));
            cases.push_back(update_amax(size, from, 100));
            for (const DType to : {DType::f8e4m3, DType::f8e5m2}) {
                cases.push_back(convert(size, {from, to, true, true, 3.4}));
                cases.push_back(convert(size, {from, to, true, false, 0.01}));
                cases.push_back(convert(size, {from, to, false, true, 0}));
                // Its reciprocal is beyond fp32.
                cases.push_back(convert(size, {from, to, true, false, 0x1p-140}));
                cases.push_back(convert(size, {from, to, true, true, 3.4, true}));
                cases.push_back(convert(size, {from, to, true, false, 3.4, true}));
            }
        }
    }
    for (const Size& size : sizes) {
        cases.push_back(forward(size, false));
        cases.push_back(forward(size, true));
        cases.push_back(input_grad(size));
        cases.push_back(weight_grad(size, reference::Result::added));
        cases.push_back(weight_grad(size, reference::Result::stored));
    }
    return cases;
}

}  // namespace gptrain
