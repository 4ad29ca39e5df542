// FP8 with scales for blocks.
#include <cmath>

#include "cases.h"
#include "fp8_case.h"

namespace gptrain {
namespace {

using namespace fp8_case;

/// Magnitudes over many powers of two from one block of 128 elements of a row to the next.
Values by_block(std::int64_t cols) {
    return [=, normal = random_values()](std::int64_t i, PhiloxKey stream) {
        const std::int64_t block = i / cols + i % cols / fp8_block;
        return normal(i, stream) * std::ldexp(1, static_cast<int>(block * 7 % 31) - 20);
    };
}

OpCase convert_rows(const Dims& size, DType from) {
    OpCase op = make_case("to_fp8_rows",
                          text(name_of(from), " ", size.rows, " x ", size.cols, " gap ", size.gap),
                          size.large);
    const auto x = op.input(from, {size.rows, size.cols}, by_block(size.cols), size.gap);
    const auto rows = op.output(DType::f8e4m3, {size.rows, size.cols});
    const auto scales = op.output(DType::f32, fp8_row_scales(size.rows, size.cols));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(ToFp8Rows{.x = at[x],
                              .out = {.rowwise = at[rows], .columnwise = {}, .scale = at[scales]}});
    };
    op.reference = [=](Arrays& at) {
        reference::to_fp8_blocks(at[x], 1, at[rows], at[scales], false);
    };
    return op;
}

OpCase convert_columns(const Dims& size, DType from, bool with_sum) {
    OpCase op = make_case("to_fp8_columns",
                          text(name_of(from), " ", size.rows, " x ", size.cols, " gap ", size.gap,
                               with_sum ? " sum" : ""),
                          size.large);
    op.limits.seq_length = std::max(op.limits.seq_length, size.rows);
    op.limits.widest = std::max(op.limits.widest, size.cols);
    const auto x = op.input(from, {size.rows, size.cols}, by_block(size.cols), size.gap);
    const auto columns = op.output(DType::f8e4m3, {size.cols, size.rows});
    const auto scales = op.output(DType::f32, fp8_row_scales(size.cols, size.rows));
    const auto sum = with_sum ? op.updated(DType::f32, {size.cols}, random_values()) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(
            ToFp8Columns{.x = at[x], .out = {{}, at[columns], {}, at[scales]}, .row_sum = at[sum]});
    };
    op.reference = [=](Arrays& at) {
        reference::to_fp8_blocks(at[x], 1, at[columns], at[scales], true);
        if (with_sum) reference::bias_grad(at[x], at[sum]);
    };
    return op;
}

OpCase convert_weight(const Dims& size, DType from) {
    OpCase op = make_case("to_fp8_blocks", text(name_of(from), " ", size.rows, " x ", size.cols),
                          size.large);
    const auto x = op.input(from, {size.rows, size.cols}, by_block(size.cols));
    const auto rows = op.output(DType::f8e4m3, {size.rows, size.cols});
    const auto columns = op.output(DType::f8e4m3, {size.cols, size.rows});
    const auto scales = op.output(DType::f32, fp8_block_scales(size.rows, size.cols));
    const auto column_scales = op.output(DType::f32, fp8_block_scales(size.cols, size.rows));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(
            ToFp8Blocks{.x = at[x], .out = {at[rows], at[columns], at[scales], at[column_scales]}});
    };
    op.reference = [=](Arrays& at) {
        reference::to_fp8_blocks(at[x], fp8_block, at[rows], at[scales], false);
        reference::to_fp8_blocks(at[x], fp8_block, at[columns], at[column_scales], true);
    };
    return op;
}

/// Scales between which a mistaken one shows.
Values scale_values() {
    return [](std::int64_t i, PhiloxKey /*stream*/) {
        return std::ldexp(1.0 + 0.1 * static_cast<double>(i % 7), static_cast<int>(i % 5) - 8);
    };
}

/// FP8 [rows, cols] with scales for blocks of 1 x 128.
struct Strips {
    Operand values, scales;
    Fp8Matrix columns(const Tensors& at) const { return {{}, at[values], {}, at[scales]}; }
};
Strips strips(OpCase& op, std::int64_t rows, std::int64_t cols) {
    return {op.input(DType::f8e4m3, {rows, cols}, random_values(60)),
            op.input(DType::f32, fp8_row_scales(rows, cols), scale_values())};
}
Array values_of(Arrays& at, const Strips& x, bool transpose) {
    return reference::from_fp8_blocks(at[x.values], at[x.scales], 1, transpose);
}

OpCase block_forward(const Size& size, bool with_bias) {
    OpCase op = product_case(
        with_bias ? "linear_forward in blocks, bias" : "linear_forward in blocks", size);
    const Strips x = strips(op, size.tokens, size.inputs);
    const auto weight = op.input(DType::f8e4m3, {size.outputs, size.inputs}, random_values(60));
    const auto weight_scales =
        op.input(DType::f32, fp8_block_scales(size.outputs, size.inputs), scale_values());
    const auto bias = with_bias ? op.input(DType::bf16, {size.outputs}, random_values()) : none;
    const auto y = op.output(DType::bf16, {size.tokens, size.outputs});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{.x = {},
                                  .weight = {},
                                  .bias = at[bias],
                                  .y = at[y],
                                  .x8 = {at[x.values], {}, at[x.scales]},
                                  .weight8 = {at[weight], {}, at[weight_scales]}});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(
            values_of(at, x, false),
            reference::from_fp8_blocks(at[weight], at[weight_scales], fp8_block, false), at[bias],
            at[y]);
    };
    return op;
}

OpCase block_input_grad(const Size& size) {
    OpCase op = product_case("linear_input_grad in blocks", size);
    const Strips dy = strips(op, size.tokens, size.outputs);
    const auto weight = op.input(DType::f8e4m3, {size.inputs, size.outputs}, random_values(60));
    const auto weight_scales =
        op.input(DType::f32, fp8_block_scales(size.inputs, size.outputs), scale_values());
    const auto dx = op.output(DType::bf16, {size.tokens, size.inputs});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(
            LinearInputGrad{.dy = {},
                            .weight = {},
                            .gelu_input = {},
                            .dx = at[dx],
                            .dy8 = {at[dy.values], {}, at[dy.scales]},
                            .weight8 = {{}, at[weight], at[weight_scales], at[weight_scales]}});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_input_grad(
            values_of(at, dy, false),
            reference::from_fp8_blocks(at[weight], at[weight_scales], fp8_block, true), {}, at[dx]);
    };
    return op;
}

OpCase block_weight_grad(const Size& size, reference::Result result) {
    const bool added = result == reference::Result::added;
    OpCase op = product_case(
        added ? "linear_weight_grad in blocks" : "linear_weight_grad in blocks overwrites", size);
    const Strips x = strips(op, size.inputs, size.tokens);
    const Strips dy = strips(op, size.outputs, size.tokens);
    const Shape shape = {size.outputs, size.inputs};
    const auto dweight =
        added ? op.updated(DType::f32, shape, random_values()) : op.output(DType::f32, shape);
    run_weight_grad(op, x, dy, dweight, added);
    op.reference = [=](Arrays& at) {
        Array no_bias;
        reference::linear_weight_grad(values_of(at, x, true), values_of(at, dy, true), at[dweight],
                                      no_bias, result);
    };
    return op;
}

}  // namespace

std::vector<OpCase> fp8_block_cases() {
    constexpr Dims activations[] = {
        {1, 128}, {7, 256, 16}, {132, 384}, {160, 128, 64}, {16384, 4096, 0, true}};
    constexpr Dims transposed[] = {{16, 16}, {144, 272}, {400, 48, 16}, {16384, 4096, 0, true}};
    constexpr Dims weights[] = {{128, 128}, {256, 640}, {384, 512}, {4096, 4096, 0, true}};
    constexpr Size products[] = {
        {16, 128, 128}, {48, 256, 384}, {160, 640, 128}, {2048, 1536, 6144, true}};
    std::vector<OpCase> cases;
    for (const DType from : compute_dtypes) {
        for (const Dims& size : activations)
            cases.push_back(convert_rows(size, from));
        for (const Dims& size : transposed) {
            cases.push_back(convert_columns(size, from, false));
            cases.push_back(convert_columns(size, from, true));
        }
        for (const Dims& size : weights)
            cases.push_back(convert_weight(size, from));
    }
    for (const Size& size : products) {
        cases.push_back(block_forward(size, false));
        cases.push_back(block_forward(size, true));
        cases.push_back(block_input_grad(size));
        cases.push_back(block_weight_grad(size, reference::Result::added));
        cases.push_back(block_weight_grad(size, reference::Result::stored));
    }
    return cases;
}

}  // namespace gptrain
