#include "base/at.h"
#include "cases.h"

namespace gptrain {
namespace {

struct Dims {
    std::int64_t rows, cols;
    std::int64_t gap = 0;
    bool large = false;
};
constexpr Dims matrices[] = {{1, 1},  {3, 7},    {5, 64},  {4, 65, 3},
                             {7, 96}, {33, 200}, {9, 128}, {8192, 4096, 0, true}};

struct Size {
    std::int64_t tokens, inputs, outputs;
    std::int64_t gap = 0;
    bool large = false;
};
constexpr Size sizes[] = {{1, 1, 1},
                          {1, 5, 3},
                          {2, 64, 17},
                          {3, 70, 9},
                          {4, 128, 33},
                          {5, 200, 12, 3},
                          {7, 72, 5},
                          {8, 321, 40},
                          {1, 768, 3072, 0, true},
                          {8, 768, 3072, 0, true},
                          {1, 768, 50257, 0, true}};

OpCase make_case(std::string_view op, const std::string& rest, DType dtype, bool large) {
    OpLimits limits;
    limits.compute = dtype;
    OpCase result(text(op, " ", name_of(dtype), " ", rest), limits);
    result.large = large;
    return result;
}

/// Whole numbers from -127 to 127, the largest among them.
Values random_int8() {
    return [normal = random_values(50)](std::int64_t i, PhiloxKey stream) {
        return i == 0 ? 127 : std::clamp(std::nearbyint(normal(i, stream)), -127.0, 127.0);
    };
}

OpCase to_int8(const Dims& size, DType dtype) {
    OpCase op = make_case("to_int8", text(size.rows, " x ", size.cols, " gap ", size.gap), dtype,
                          size.large);
    // Blocks of very different size, some of zeros, some that count as zeros in fp32 and bf16.
    const Values spread = [normal = random_values()](std::int64_t i, PhiloxKey stream) {
        constexpr double scales[] = {1, 1e-4, 0, 300, 1e-33};
        return normal(i, stream) * scales[i / 48 % 5];
    };
    const auto x = op.input(dtype, {size.rows, size.cols}, spread, size.gap);
    const auto values = op.output(DType::i8, {size.rows, size.cols});
    const auto scales = op.output(DType::f32, {size.rows, Int8Matrix::blocks_of(size.cols)});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(ToInt8{.x = at[x], .out = {at[values], at[scales]}});
    };
    op.reference = [=](Arrays& at) { reference::to_int8(at[x], at[values], at[scales]); };
    return op;
}

OpCase from_int8(const Dims& size, DType dtype) {
    OpCase op = make_case("from_int8", text(size.rows, " x ", size.cols, " gap ", size.gap), dtype,
                          size.large);
    const auto values = op.input(DType::i8, {size.rows, size.cols}, random_int8());
    const auto scales =
        op.input(DType::f32, {size.rows, Int8Matrix::blocks_of(size.cols)}, random_values(0.01));
    const auto out = op.output(dtype, {size.rows, size.cols}, size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(FromInt8{.x = {at[values], at[scales]}, .out = at[out]});
    };
    op.reference = [=](Arrays& at) {
        const Array matrix = reference::from_int8(at[values], at[scales]);
        at[out].values() = matrix.values();
    };
    return op;
}

/// Experts with and without rows.
struct Experts {
    std::vector<double> offsets;
    std::int64_t parts, outputs, inputs;
    bool large = false;
    std::int64_t count() const { return std::ssize(offsets) - 1; }
    std::int64_t rows() const { return parts * count() * outputs; }
    bool have(std::int64_t expert) const { return at(offsets, expert) < at(offsets, expert + 1); }
};

std::vector<Experts> groups_of_experts() {
    std::vector<double> few(65, 0);
    for (std::size_t i = 20; i < few.size(); ++i)
        few[i] = i < 50 ? 1 : 2;
    return {{{0, 0}, 1, 3, 5},
            {{0, 2}, 2, 3, 70},
            {{0, 0, 4, 4, 5}, 2, 7, 65},
            {{0, 1, 1}, 1, 40, 200},
            {few, 2, 768, 512, true}};
}

OpCase grouped_from_int8(const Experts& size, DType dtype) {
    OpCase op =
        make_case("grouped_from_int8",
                  text("P", size.parts, " E", size.count(), " ", size.outputs, " x ", size.inputs),
                  dtype, size.large);
    const Shape shape = {size.parts, size.count(), size.outputs, size.inputs};
    const Shape rows = {size.rows(), size.inputs};
    const auto values = op.input(DType::i8, rows, random_int8());
    const std::int64_t blocks = Int8Matrix::blocks_of(size.inputs);
    const auto scales = op.input(DType::f32, {size.rows(), blocks}, random_values(0.01));
    const auto offsets = op.input(DType::i32, {size.count() + 1}, given(size.offsets));
    const auto out = op.updated(dtype, rows, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        const Tensor of_blocks = at[scales].view({shape[0], shape[1], shape[2], blocks});
        backend.run(GroupedFromInt8{.x = {at[values].view(shape), of_blocks},
                                    .offsets = at[offsets],
                                    .out = at[out].view(shape)});
    };
    op.reference = [=](Arrays& at) {
        const Array matrix = reference::from_int8(at[values], at[scales]);
        for (std::int64_t row = 0; row < size.rows(); ++row) {
            if (!size.have(row / size.outputs % size.count())) continue;
            for (std::int64_t i = 0; i < size.inputs; ++i)
                at[out](row, i) = matrix(row, i);
        }
    };
    return op;
}

OpCase forward(const Size& size, DType dtype, bool with_bias) {
    OpCase op =
        make_case(with_bias ? "int8_linear_forward bias" : "int8_linear_forward",
                  text("T", size.tokens, " I", size.inputs, " O", size.outputs, " gap ", size.gap),
                  dtype, size.large);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto values = op.input(DType::i8, {size.outputs, size.inputs}, random_int8());
    const auto scales = op.input(DType::f32, {size.outputs, Int8Matrix::blocks_of(size.inputs)},
                                 random_values(0.01));
    const auto bias = with_bias ? op.input(dtype, {size.outputs}, random_values()) : none;
    const auto y = op.output(dtype, {size.tokens, size.outputs}, size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(Int8LinearForward{
            .x = at[x], .weight = {at[values], at[scales]}, .bias = at[bias], .y = at[y]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], reference::from_int8(at[values], at[scales]), at[bias],
                                  at[y]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> int8_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Dims& size : matrices) {
            cases.push_back(to_int8(size, dtype));
            cases.push_back(from_int8(size, dtype));
        }
        for (const Experts& size : groups_of_experts())
            cases.push_back(grouped_from_int8(size, dtype));
        for (const Size& size : sizes) {
            cases.push_back(forward(size, dtype, false));
            cases.push_back(forward(size, dtype, true));
        }
    }
    return cases;
}

}  // namespace gptrain
