#include "emulator/sm90_gemm_cases.h"

#include <cmath>
#include <numeric>

#include "base/text.h"
#include "fp8_case.h"
#include "swiglu_case.h"

namespace gptrain {
namespace {

// Rows and columns of every result: two pairs of tiles, and two tiles beside each other.
constexpr std::int64_t rows = 264;
constexpr std::int64_t columns = 280;
/// The summed dim, more than the steps that are loaded ahead. Weight gradients sum over tokens,
/// whose number need not be a multiple of 8.
constexpr std::int64_t length = 328;
constexpr std::int64_t tokens = 331;
constexpr std::int64_t gap = 16;  ///< between rows
/// Rows of memory behind those of tokens, which hold NaN.
constexpr std::int64_t behind = 5;
const Values integers = random_integers(-4, 5);

OpCase make_case(std::string_view op, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = 1;
    limits.seq_length = tokens;
    limits.hidden = columns;
    limits.widest = length;
    return OpCase(text("sm90 ", op, ' ', name_of(dtype)), limits);
}

struct Forward {
    DType result;
    bool bias = false;
    bool gelu = false;
    bool accumulate = false;
};

OpCase forward(std::string_view name, DType dtype, const Forward& with) {
    OpCase op = make_case(name, dtype);
    const auto x = op.input(dtype, {rows, length}, integers, gap);
    const auto weight = op.input(dtype, {columns, length}, integers);
    const auto bias = with.bias ? op.input(with.result, {columns}, integers) : none;
    const auto y = with.accumulate ? op.updated(with.result, {rows, columns}, integers, gap)
                                   : op.output(with.result, {rows, columns}, with.gelu ? 0 : gap);
    const auto gelu = with.gelu ? op.output(dtype, {rows, columns}) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{.x = at[x],
                                  .weight = at[weight],
                                  .bias = at[bias],
                                  .y = at[y],
                                  .gelu = at[gelu],
                                  .accumulate = with.accumulate});
    };
    return op;
}

/// fc and gate each fill a half of one tile, and less than a panel of the next.
OpCase forward_swiglu(DType dtype, bool with_bias) {
    constexpr std::int64_t width = 136;
    OpCase op = make_case(with_bias ? "forward bias swiglu" : "forward swiglu", dtype);
    const auto x = op.input(dtype, {rows, length}, integers, gap);
    const auto weight = op.input(dtype, {2 * width, length}, integers);
    const auto bias = with_bias ? op.input(dtype, {2 * width}, integers) : none;
    const auto u = op.output(dtype, {rows, 2 * width});
    const auto a = op.output(dtype, {rows, width});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{
            .x = at[x], .weight = at[weight], .bias = at[bias], .y = at[u], .swiglu = at[a]});
    };
    return op;
}

OpCase swiglu_input_grad(DType dtype) {
    OpCase op = make_case("input_grad swiglu", dtype);
    const auto dy = op.input(dtype, {rows, length}, integers);
    const auto weight = op.input(dtype, {length, columns}, integers);
    const auto u = op.input(dtype, {rows, 2 * columns}, integers);
    swiglu_case::run_input_grad(op, dy, weight, u, dtype, {rows, columns});
    return op;
}

OpCase input_grad(std::string_view name, DType dtype, bool with_gelu, bool accumulate) {
    OpCase op = make_case(name, dtype);
    const auto dy = op.input(dtype, {rows, length}, integers);
    const auto weight = op.input(dtype, {length, columns}, integers);
    const auto gelu_input = with_gelu ? op.input(dtype, {rows, columns}, integers, gap) : none;
    const auto dx = accumulate ? op.updated(dtype, {rows, columns}, integers, gap)
                               : op.output(dtype, {rows, columns}, gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearInputGrad{.dy = at[dy],
                                    .weight = at[weight],
                                    .gelu_input = at[gelu_input],
                                    .dx = at[dx],
                                    .accumulate = accumulate});
    };
    return op;
}

OpCase weight_grad(std::string_view name, DType dtype, bool with_bias, bool accumulate,
                   const Values& values = integers) {
    OpCase op = make_case(name, dtype);
    const auto matrix = [&](std::int64_t width) {
        return op.part(
            Role::input, op.storage(dtype, {tokens + behind, width + gap}),
            [=](const Tensor& whole) { return whole.slice(0, 0, tokens).slice(1, gap / 2, width); },
            values);
    };
    const auto x = matrix(columns);
    const auto dy = matrix(rows);
    const auto dweight = accumulate ? op.updated(DType::f32, {rows, columns}, integers)
                                    : op.output(DType::f32, {rows, columns});
    const auto dbias = with_bias ? op.updated(DType::f32, {rows}, integers) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearWeightGrad{.x = at[x],
                                     .dy = at[dy],
                                     .dweight = at[dweight],
                                     .dbias = at[dbias],
                                     .accumulate = accumulate});
    };
    return op;
}

// ---- FP8 ----------------------------------------------------------------------------------------

/// A pair of tiles that ends in its second one, and two tiles beside each other, of which the last
/// has less than a half. The summed dim has more steps than are loaded ahead, and ends inside of
/// one.
constexpr std::int64_t fp8_rows = 200;
constexpr std::int64_t fp8_columns = 280;
constexpr std::int64_t fp8_length = 528;

/// An operand of FP8 with one scale.
struct Fp8Operand {
    Operand values;
    Operand scale;

    Fp8Operand(OpCase& op, DType dtype, std::int64_t count, const Values& numbers, double factor)
        : values(op.input(dtype, {count, fp8_length}, numbers)),
          scale(op.input(DType::f32, {1}, constant(factor))) {}
    Fp8Matrix rows(const Tensors& at) const { return {at[values], {}, at[scale]}; }
    Fp8Matrix columns(const Tensors& at) const { return {{}, at[values], at[scale]}; }
};

/// Their products are exact in few bits. So are sums of 128, but not those of all: these need the
/// bits of fp32.
const Values large_integers = random_integers(4, 9);

OpCase fp8_case(std::string_view name) {
    OpCase op = make_case(name, DType::bf16);
    op.limits.seq_length = op.limits.widest = fp8_length;
    return op;
}

OpCase fp8_forward(bool accumulate) {
    OpCase op = fp8_case(accumulate ? "fp8 forward accumulate" : "fp8 forward bias");
    const Fp8Operand x(op, DType::f8e4m3, fp8_rows, integers, 0.5);
    const Fp8Operand weight(op, DType::f8e4m3, fp8_columns, integers, 0.25);
    const auto bias = accumulate ? none : op.input(DType::bf16, {fp8_columns}, integers);
    const Shape shape = {fp8_rows, fp8_columns};
    const auto y = accumulate ? op.updated(DType::bf16, shape, integers, gap)
                              : op.output(DType::bf16, shape, gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{.x = {},
                                  .weight = {},
                                  .bias = at[bias],
                                  .y = at[y],
                                  .x8 = x.rows(at),
                                  .weight8 = weight.rows(at),
                                  .accumulate = accumulate});
    };
    return op;
}

OpCase fp8_input_grad() {
    OpCase op = fp8_case("fp8 input_grad");
    const Fp8Operand dy(op, DType::f8e5m2, fp8_rows, large_integers, 0.5);
    const Fp8Operand weight(op, DType::f8e4m3, fp8_columns, large_integers, 0.25);
    const auto dx = op.output(DType::bf16, {fp8_rows, fp8_columns}, gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearInputGrad{.dy = {},
                                    .weight = {},
                                    .gelu_input = {},
                                    .dx = at[dx],
                                    .dy8 = dy.rows(at),
                                    .weight8 = weight.columns(at)});
    };
    return op;
}

OpCase fp8_weight_grad() {
    OpCase op = fp8_case("fp8 weight_grad accumulate");
    const Fp8Operand dy(op, DType::f8e5m2, fp8_rows, large_integers, 0.5);
    const Fp8Operand x(op, DType::f8e4m3, fp8_columns, large_integers, 0.25);
    const auto dweight = op.updated(DType::f32, {fp8_rows, fp8_columns}, integers);
    fp8_case::run_weight_grad(op, x, dy, dweight, true);
    return op;
}

/// Scales that are powers of two, so that sums stay exact. Rows of as many as a result has rows or
/// columns differ.
double power(std::int64_t i, PhiloxKey /*key*/) {
    return std::ldexp(1, static_cast<int>(i * 7 % 9 % 5) - 2);
}

/// Blocks of 128: all dims but the rows are multiples of it.
OpCase fp8_blocks() {
    constexpr std::int64_t columns_of_blocks = 384;
    constexpr std::int64_t length_of_blocks = 640;
    OpCase op = fp8_case("fp8 forward blocks bias");
    op.limits.widest = length_of_blocks;
    const auto x = op.input(DType::f8e4m3, {fp8_rows, length_of_blocks}, integers);
    const auto x_scales = op.input(DType::f32, fp8_row_scales(fp8_rows, length_of_blocks), power);
    const auto weight = op.input(DType::f8e4m3, {columns_of_blocks, length_of_blocks}, integers);
    const auto weight_scales =
        op.input(DType::f32, fp8_block_scales(columns_of_blocks, length_of_blocks), power);
    const auto bias = op.input(DType::bf16, {columns_of_blocks}, integers);
    const auto y = op.output(DType::bf16, {fp8_rows, columns_of_blocks}, gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{.x = {},
                                  .weight = {},
                                  .bias = at[bias],
                                  .y = at[y],
                                  .x8 = {at[x], {}, at[x_scales]},
                                  .weight8 = {at[weight], {}, at[weight_scales]}});
    };
    return op;
}

/// The columns of an operand in blocks of 1 x 128, of which the last is shorter.
struct Fp8Strips {
    Operand values;
    Operand scales;

    Fp8Strips(OpCase& op, std::int64_t count)
        : values(op.input(DType::f8e4m3, {count, fp8_length}, integers)),
          scales(op.input(DType::f32, fp8_row_scales(count, fp8_length), power)) {}
    Fp8Matrix columns(const Tensors& at) const { return {{}, at[values], {}, at[scales]}; }
};

/// With few rows, a pair of tiles ends in its first one.
OpCase fp8_strips_weight_grad(std::int64_t outputs, bool accumulate) {
    OpCase op = fp8_case(text("fp8 weight_grad blocks ", outputs, accumulate ? " accumulate" : ""));
    const Fp8Strips dy(op, outputs);
    const Fp8Strips x(op, fp8_columns);
    const Shape shape = {outputs, fp8_columns};
    const auto dweight =
        accumulate ? op.updated(DType::f32, shape, integers) : op.output(DType::f32, shape);
    fp8_case::run_weight_grad(op, x, dy, dweight, accumulate);
    return op;
}

// ---- experts ------------------------------------------------------------------------------------

/// Rows of each expert: none, fewer than a step of a weight gradient has, and more than a pair of
/// tiles. They begin inside of tiles.
const std::vector<std::int64_t> counts = {70, 0, 259, 3};
constexpr std::int64_t parts = 2;
/// Of one part: its last panel is not full. Steps of the input gradient end there.
constexpr std::int64_t outputs = 72;
constexpr std::int64_t inputs = 264;

struct Experts {
    OpCase op;
    std::int64_t count = std::ssize(counts);
    std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});

    Experts(std::string_view name, DType dtype) : op(make_case(name, dtype)) {
        op.limits.experts = count;
        op.limits.expert_slots = op.limits.seq_length = all + behind;
        op.limits.expert_width = op.limits.widest = inputs;
    }
    Operand offsets() {
        std::vector<double> values = {0};
        for (const std::int64_t each : counts)
            values.push_back(values.back() + static_cast<double>(each));
        return op.input(DType::i32, {count + 1}, given(values));
    }
    Operand matrix(Role role, DType dtype, std::int64_t width) {
        return op.part(
            role, op.storage(dtype, {all + behind, width}),
            [own = all](const Tensor& whole) { return whole.slice(0, 0, own); },
            role == Role::input ? integers : Values());
    }
    Shape weight() const { return {parts, count, outputs, inputs}; }
    /// With the rows behind.
    static Tensor whole(const Tensor& own) {
        return {own.data(), own.dtype(), {own.size(0) + behind, own.size(1)}};
    }
};

OpCase grouped_forward(DType dtype) {
    Experts experts("grouped_forward bias", dtype);
    const auto x = experts.matrix(Role::input, dtype, inputs);
    const auto weight = experts.op.input(dtype, experts.weight(), integers);
    const auto bias = experts.op.input(dtype, {parts, experts.count, outputs}, integers);
    const auto offsets = experts.offsets();
    const auto y = experts.matrix(Role::output, dtype, parts * outputs);
    experts.op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupedForward{.x = Experts::whole(at[x]),
                                   .weight = at[weight],
                                   .offsets = at[offsets],
                                   .y = Experts::whole(at[y]),
                                   .bias = at[bias]});
    };
    return experts.op;
}

OpCase grouped_input_grad(DType dtype) {
    Experts experts("grouped_input_grad", dtype);
    const auto dy = experts.matrix(Role::input, dtype, parts * outputs);
    const auto weight = experts.op.input(dtype, experts.weight(), integers);
    const auto offsets = experts.offsets();
    const auto dx = experts.matrix(Role::output, dtype, inputs);
    experts.op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupedInputGrad{.dy = Experts::whole(at[dy]),
                                     .weight = at[weight],
                                     .offsets = at[offsets],
                                     .dx = Experts::whole(at[dx])});
    };
    return experts.op;
}

OpCase grouped_weight_grad(DType dtype, bool accumulate) {
    Experts experts(accumulate ? "grouped_weight_grad accumulate" : "grouped_weight_grad", dtype);
    const auto x = experts.matrix(Role::input, dtype, inputs);
    const auto dy = experts.matrix(Role::input, dtype, parts * outputs);
    const auto offsets = experts.offsets();
    const auto dweight = accumulate ? experts.op.updated(DType::f32, experts.weight(), integers)
                                    : experts.op.output(DType::f32, experts.weight());
    experts.op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(GroupedWeightGrad{.x = Experts::whole(at[x]),
                                      .dy = Experts::whole(at[dy]),
                                      .offsets = at[offsets],
                                      .dweight = at[dweight],
                                      .accumulate = accumulate});
    };
    return experts.op;
}

}  // namespace

std::vector<OpCase> sm90_gemm_cases(DType dtype) {
    const DType f32 = DType::f32;
    return {
        forward("forward", dtype, {.result = dtype}),
        forward("forward bias", dtype, {.result = dtype, .bias = true}),
        forward("forward bias gelu", dtype, {.result = dtype, .bias = true, .gelu = true}),
        forward_swiglu(dtype, false),
        forward_swiglu(dtype, true),
        forward("forward accumulate", dtype, {.result = dtype, .accumulate = true}),
        forward("forward to fp32 bias", dtype, {.result = f32, .bias = true}),
        input_grad("input_grad", dtype, false, false),
        input_grad("input_grad gelu", dtype, true, false),
        swiglu_input_grad(dtype),
        input_grad("input_grad accumulate", dtype, false, true),
        weight_grad("weight_grad", dtype, false, false),
        weight_grad("weight_grad accumulate bias", dtype, true, true),
        grouped_forward(dtype),
        grouped_input_grad(dtype),
        grouped_weight_grad(dtype, false),
        grouped_weight_grad(dtype, true),
    };
}

std::vector<OpCase> sm90_fp8_cases() {
    return {fp8_forward(false),
            fp8_forward(true),
            fp8_input_grad(),
            fp8_weight_grad(),
            fp8_blocks(),
            fp8_strips_weight_grad(fp8_rows, true),
            fp8_strips_weight_grad(96, false)};
}

OpCase sm90_rounded_case() {
    return weight_grad("weight_grad rounded", DType::bf16, true, true, random_values(1));
}

std::vector<OpCase> few_sm90_gemm_cases() {
    const DType dtype = DType::bf16;
    return {
        forward("forward bias gelu", dtype, {.result = dtype, .bias = true, .gelu = true}),
        input_grad("input_grad gelu", dtype, true, false),
        forward_swiglu(dtype, true),
        swiglu_input_grad(dtype),
        weight_grad("weight_grad accumulate bias", dtype, true, true),
        grouped_forward(dtype),
        grouped_weight_grad(dtype, true),
        fp8_strips_weight_grad(fp8_rows, true),
    };
}

}  // namespace gptrain
