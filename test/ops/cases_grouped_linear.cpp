#include <numeric>

#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::vector<std::int64_t> counts;  ///< rows of each expert
    std::int64_t parts, inputs, outputs;
    std::int64_t behind = 5;  ///< rows of memory behind those of the experts
    bool large = false;

    std::int64_t experts() const { return std::ssize(counts); }
    std::int64_t rows() const { return offset(experts()); }
    std::int64_t offset(std::int64_t expert) const {
        return std::accumulate(counts.begin(), counts.begin() + expert, std::int64_t{0});
    }
    std::vector<double> offsets() const {
        std::vector<double> result;
        for (std::int64_t e = 0; e <= experts(); ++e)
            result.push_back(static_cast<double>(offset(e)));
        return result;
    }
};

std::vector<Size> sizes() {
    return {{{1}, 1, 1, 1},
            {{0}, 2, 5, 3},
            {{0, 0, 0}, 1, 8, 16},
            {{7}, 2, 13, 11},
            {{130}, 2, 40, 24},
            {{3, 0, 17, 1}, 2, 13, 11},
            {{3, 0, 17, 1}, 1, 13, 11, 0},
            {{0, 1, 127, 128, 129}, 2, 40, 24},
            {{129, 0, 16, 15, 1, 0}, 1, 64, 48},
            {{0, 300, 0}, 2, 24, 40},
            {{97, 530, 2}, 1, 9, 8},
            {{2, 0, 5}, 2, 600, 40},
            {{2, 3}, 2, 24, 530},
            {std::vector<std::int64_t>(40, 2), 1, 16, 8},
            {std::vector<std::int64_t>(8, 256), 2, 768, 1024, 0, true},
            {std::vector<std::int64_t>(8, 256), 1, 1024, 768, 0, true},
            {std::vector<std::int64_t>(64, 32), 2, 768, 512, 0, true},
            {std::vector<std::int64_t>(64, 2), 2, 768, 512, 0, true},
            {{2048}, 2, 768, 1024, 0, true}};
}

OpCase make_case(std::string_view op, const Size& size, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = 1;
    limits.seq_length = size.rows() + size.behind;
    limits.hidden = size.inputs;
    limits.widest = std::max(size.inputs, size.parts * size.outputs);
    limits.experts = size.experts();
    limits.expert_slots = size.rows() + size.behind;
    limits.expert_width = limits.widest;
    OpCase result(text(op, " ", name_of(dtype), " R", size.rows(), " E", size.experts(), " P",
                       size.parts, " I", size.inputs, " O", size.outputs),
                  limits);
    result.flops = 2.0 * static_cast<double>(size.rows() * size.parts * size.inputs * size.outputs);
    result.large = size.large;
    return result;
}

/// The rows of the experts; those behind hold NaN.
Operand rows_of(OpCase& op, Role role, DType dtype, const Size& size, std::int64_t width,
                const Values& values = Values()) {
    return op.part(
        role, op.storage(dtype, {size.rows() + size.behind, width}),
        [rows = size.rows()](const Tensor& whole) { return whole.slice(0, 0, rows); }, values);
}
/// With the rows behind.
Tensor whole(const Tensor& rows, const Size& size) {
    return {rows.data(), rows.dtype(), {size.rows() + size.behind, rows.size(1)}};
}

Shape weight_shape(const Size& size) {
    return {size.parts, size.experts(), size.outputs, size.inputs};
}

Shape bias_shape(const Size& size) {
    return {size.parts, size.experts(), size.outputs};
}

OpCase forward(const Size& size, DType dtype, bool with_bias) {
    OpCase op = make_case(with_bias ? "grouped_forward with bias" : "grouped_forward", size, dtype);
    const auto x = rows_of(op, Role::input, dtype, size, size.inputs, random_values());
    const auto weight = op.input(dtype, weight_shape(size), random_values(0.5));
    const auto bias = with_bias ? op.input(dtype, bias_shape(size), random_values(2)) : none;
    const auto offsets = op.input(DType::i32, {size.experts() + 1}, given(size.offsets()));
    const auto y = rows_of(op, Role::output, dtype, size, size.parts * size.outputs);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupedForward{.x = whole(at[x], size),
                                   .weight = at[weight],
                                   .offsets = at[offsets],
                                   .y = whole(at[y], size),
                                   .bias = at[bias]});
    };
    op.reference = [=](Arrays& at) {
        reference::grouped_forward(at[x], at[weight], at[bias], at[offsets], at[y]);
    };
    return op;
}

OpCase input_grad(const Size& size, DType dtype) {
    OpCase op = make_case("grouped_input_grad", size, dtype);
    const auto dy =
        rows_of(op, Role::input, dtype, size, size.parts * size.outputs, random_values());
    const auto weight = op.input(dtype, weight_shape(size), random_values(0.5));
    const auto offsets = op.input(DType::i32, {size.experts() + 1}, given(size.offsets()));
    const auto dx = rows_of(op, Role::output, dtype, size, size.inputs);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupedInputGrad{.dy = whole(at[dy], size),
                                     .weight = at[weight],
                                     .offsets = at[offsets],
                                     .dx = whole(at[dx], size)});
    };
    op.reference = [=](Arrays& at) {
        reference::grouped_input_grad(at[dy], at[weight], at[offsets], at[dx]);
    };
    return op;
}

OpCase weight_grad(const Size& size, DType dtype, reference::Result result) {
    const bool added = result == reference::Result::added;
    OpCase op =
        make_case(added ? "grouped_weight_grad" : "grouped_weight_grad overwrites", size, dtype);
    const auto x = rows_of(op, Role::input, dtype, size, size.inputs, random_values());
    const auto dy =
        rows_of(op, Role::input, dtype, size, size.parts * size.outputs, random_values());
    const auto offsets = op.input(DType::i32, {size.experts() + 1}, given(size.offsets()));
    const auto dweight = added ? op.updated(DType::f32, weight_shape(size), random_values(3))
                               : op.output(DType::f32, weight_shape(size));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupedWeightGrad{.x = whole(at[x], size),
                                      .dy = whole(at[dy], size),
                                      .offsets = at[offsets],
                                      .dweight = at[dweight],
                                      .accumulate = added});
    };
    op.reference = [=](Arrays& at) {
        reference::grouped_weight_grad(at[x], at[dy], at[offsets], at[dweight], result);
    };
    return op;
}

OpCase bias_grad(const Size& size, DType dtype) {
    OpCase op = make_case("grouped_bias_grad", size, dtype);
    op.flops = 0;
    const auto dy =
        rows_of(op, Role::input, dtype, size, size.parts * size.outputs, random_values());
    const auto offsets = op.input(DType::i32, {size.experts() + 1}, given(size.offsets()));
    const auto dbias = op.updated(DType::f32, bias_shape(size), random_values(3));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(
            GroupedBiasGrad{.dy = whole(at[dy], size), .offsets = at[offsets], .dbias = at[dbias]});
    };
    op.reference = [=](Arrays& at) {
        reference::grouped_bias_grad(at[dy], at[offsets], at[dbias]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> grouped_linear_cases() {
    using enum reference::Result;
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes()) {
            cases.push_back(forward(size, dtype, false));
            cases.push_back(forward(size, dtype, true));
            cases.push_back(bias_grad(size, dtype));
            cases.push_back(input_grad(size, dtype));
            cases.push_back(weight_grad(size, dtype, added));
            if (!size.large) cases.push_back(weight_grad(size, dtype, stored));
        }
    }
    return cases;
}

}  // namespace gptrain
