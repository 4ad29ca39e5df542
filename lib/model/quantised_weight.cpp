#include "model/quantised_weight.h"

namespace gptrain {
namespace {

/// Calls f(matrix, first row) for each of the stacked matrices.
void for_matrices(const GroupTensors& weight, const auto& f) {
    std::int64_t row = 0;
    for (const Nf4Matrix& matrix : weight.nf4) {
        f(matrix, row);
        row += matrix.shape[0];
    }
}

}  // namespace

static_assert(Int8Matrix::block == int8_block, "int8_warning counts the same blocks");

Tensor whole_weight(const ModelContext& context, const GroupTensors& weight) {
    if (!weight.quantised()) return weight.weight;
    const Tensor widened = context.temporary({weight.outputs(), weight.inputs()});
    if (!weight.int8.empty()) context.backend.run(FromInt8{.x = weight.int8, .out = widened});
    for_matrices(weight, [&](const Nf4Matrix& matrix, std::int64_t row) {
        context.backend.run(FromNf4{.x = matrix, .out = widened.slice(0, row, matrix.shape[0])});
    });
    return widened;
}

Tensor weight_of_experts(const ModelContext& context, const GroupTensors& weight,
                         const Tensor& offsets, std::int64_t rows) {
    if (!weight.quantised()) return weight.weight;
    if (!weight.int8.empty()) {
        const Tensor widened = context.temporary(weight.int8.values.shape());
        context.backend.run(
            GroupedFromInt8{.x = weight.int8, .offsets = offsets, .out = widened, .rows = rows});
        return widened;
    }
    const Shape& shape = weight.nf4.front().shape;
    const Tensor widened =
        context.temporary({std::ssize(weight.nf4), shape[0], shape[1], shape[2]});
    for (std::int64_t i = 0; i < widened.size(0); ++i) {
        context.backend.run(GroupedFromNf4{.x = weight.nf4[static_cast<std::size_t>(i)],
                                           .offsets = offsets,
                                           .out = widened.at(i),
                                           .rows = rows});
    }
    return widened;
}

Tensor forward_weight(const ModelContext& context, const GroupTensors& weight, std::int64_t rows) {
    const bool whole_rows = weight.nf4.empty() || weight.inputs() % nf4_block == 0;
    if (weight.quantised() && rows <= few_rows && whole_rows) return {};
    return whole_weight(context, weight);
}

void multiply_few(Backend& backend, const GroupTensors& weight, const Tensor& x, const Tensor& bias,
                  const Tensor& y) {
    if (!weight.int8.empty())
        return backend.run(Int8LinearForward{.x = x, .weight = weight.int8, .bias = bias, .y = y});
    for_matrices(weight, [&](const Nf4Matrix& matrix, std::int64_t row) {
        const std::int64_t rows = matrix.shape[0];
        backend.run(Nf4LinearForward{.x = x,
                                     .weight = matrix,
                                     .bias = bias.empty() ? bias : bias.slice(0, row, rows),
                                     .y = y.slice(1, row, rows)});
    });
}

}  // namespace gptrain
