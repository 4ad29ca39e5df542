// The GEMM kernel for sm_90a next to cuBLASLt and the kernels for separate epilogues, on a GPU of
// compute capability 9.0.
#include <utility>
#include <vector>

#include "backend/model_ops.h"
#include "catch.h"
#include "cuda/gemm/agreement.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/sm90/gemm.h"
#include "cuda/gemm/sm90/grouped.h"
#include "cuda/gemm/sm90_plan.h"
#include "cuda/ops/grouped_linear.h"
#include "cuda/ops/linear.h"

namespace gptrain::cuda {
namespace {

/// A matrix on the device, of integers from -3 to 3. Those of FP8 are from 4 to 8: sums of 128
/// products are exact on the tensor cores, sums of more need fp32.
class Integers {
public:
    Integers(DType dtype, std::int64_t rows, std::int64_t cols, const Stream& stream)
        : tensor_(allocate(rows * cols * size_of(dtype), MemorySpace::device), dtype,
                  {rows, cols}) {
        std::vector<std::byte> values(static_cast<std::size_t>(tensor_.bytes()));
        for (std::int64_t i = 0; i < tensor_.elements(); ++i) {
            const float x = small(i, rows);
            if (dtype == DType::f32) reinterpret_cast<float*>(values.data())[i] = x;
            if (dtype == DType::bf16) reinterpret_cast<Bf16*>(values.data())[i] = to_bf16(x);
            if (dtype == DType::f16) reinterpret_cast<F16*>(values.data())[i] = to_f16(x);
            const float y = large(i, rows);
            if (dtype == DType::f8e4m3)
                reinterpret_cast<F8E4M3*>(values.data())[i] = to_fp8<F8E4M3>(y);
            if (dtype == DType::f8e5m2)
                reinterpret_cast<F8E5M2*>(values.data())[i] = to_fp8<F8E5M2>(y);
        }
        copy(tensor_.data(), values.data(), tensor_.bytes(), stream);
        stream.synchronize();
    }
    Integers(const Integers&) = delete;
    Integers& operator=(const Integers&) = delete;
    ~Integers() { release(tensor_.data(), MemorySpace::device); }
    const Tensor& tensor() const { return tensor_; }

    /// Element i of a matrix with so many rows.
    static float small(std::int64_t i, std::int64_t rows) {
        return static_cast<float>((i * 5 + i / 11 * 3 + rows) % 7 - 3);
    }
    static float large(std::int64_t i, std::int64_t rows) {
        return static_cast<float>((i * 5 + i / 11 * 3 + rows) % 5 + 4);
    }

private:
    Tensor tensor_;
};

class Gpu {
public:
    Gpu() : gemms_(properties, nullptr) {}
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;
    ~Gpu() { release(memory_, MemorySpace::device); }
    OpContext context() {
        scratch_.reset();
        return {.stream = stream, .scratch = scratch_, .device = properties};
    }
    /// How the kernel, with the summed dim in so many parts, differs from the op.
    std::string difference(const Gemm& gemm, std::int64_t parts, const auto& op) {
        REQUIRE(sm90::covers_gemm(gemm));
        return result_difference(
            gemm, [&] { cuda::run(op, gemms_, context()); },
            [&] { sm90::multiply(gemm, parts, context()); }, stream);
    }
    /// How the kernel for grouped GEMMs differs from the op, which another kernel computes.
    std::string difference(const GroupedGemm& gemm, const auto& op) {
        REQUIRE(sm90::covers_grouped(gemm));
        const std::int64_t width = gemm.c.size(-1);
        const Gemm results = {.a = {},
                              .b = {},
                              .c = Matrix(gemm.c.view({gemm.c.elements() / width, width})),
                              .accumulate = gemm.accumulate};
        return result_difference(
            results, [&] { cuda::run(op, gemms_, context()); },
            [&] { sm90::multiply(gemm, context()); }, stream);
    }

    DeviceProperties properties = open_device(0);
    Stream stream;

private:
    static constexpr std::int64_t scratch_bytes = Gemms::workspace_bytes + linear_sums_bytes;
    Gemms gemms_;
    std::byte* memory_ = allocate(scratch_bytes, MemorySpace::device);
    Scratch scratch_{memory_, scratch_bytes};
};

}  // namespace

TEST_CASE("GEMMs by the kernel for sm_90a agree with cuBLASLt", "[sm90-gemm]") {
    Gpu gpu;
    if (gpu.properties.major != 9 || gpu.properties.minor != 0) return;
    const DType dtype = GENERATE(DType::bf16, DType::f16);
    // Whole tiles on all multiprocessors, and sizes that end inside of one.
    const auto [tokens, inputs, outputs] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
        {{4096, 768, 3072}, {1000, 1032, 1336}, {8, 64, 16}}));
    CAPTURE(name_of(dtype), tokens, inputs, outputs);
    const auto integers = [&](std::int64_t rows, std::int64_t cols, DType of) {
        return Integers(of, rows, cols, gpu.stream);
    };
    const Integers x = integers(tokens, inputs, dtype), weight = integers(outputs, inputs, dtype);
    const Integers y = integers(tokens, outputs, dtype), gelu = integers(tokens, outputs, dtype);
    const Integers bias = integers(1, outputs, dtype), dx = integers(tokens, inputs, dtype);
    const Integers dweight = integers(outputs, inputs, DType::f32);
    const Tensor bias_row(bias.tensor().data(), dtype, {outputs});

    Gemm forward = {.a = Matrix(x.tensor()),
                    .b = Matrix(weight.tensor()).transposed(),
                    .c = Matrix(y.tensor()),
                    .bias = bias_row.data()};
    LinearForward forward_op = {
        .x = x.tensor(), .weight = weight.tensor(), .bias = bias_row, .y = y.tensor()};
    CHECK(gpu.difference(forward, 1, forward_op) == "");
    forward.gelu = Matrix(gelu.tensor());
    forward_op.gelu = gelu.tensor();
    CHECK(gpu.difference(forward, 1, forward_op) == "");

    const Tensor halves(gelu.tensor().data(), dtype, {tokens, outputs / 2});
    forward.gelu = {};
    forward.swiglu = Matrix(halves);
    forward_op.gelu = {};
    forward_op.swiglu = halves;
    CHECK(gpu.difference(forward, 1, forward_op) == "");

    Gemm input_grad = {.a = Matrix(gelu.tensor()),
                       .b = Matrix(weight.tensor()),
                       .c = Matrix(dx.tensor()),
                       .gelu_input = Matrix(x.tensor())};
    LinearInputGrad input_grad_op = {.dy = gelu.tensor(),
                                     .weight = weight.tensor(),
                                     .gelu_input = x.tensor(),
                                     .dx = dx.tensor()};
    CHECK(gpu.difference(input_grad, 1, input_grad_op) == "");
    const Integers u = integers(tokens, 2 * inputs, dtype),
                   du = integers(tokens, 2 * inputs, dtype);
    input_grad.gelu_input = {};
    input_grad.swiglu_input = Matrix(u.tensor());
    input_grad.swiglu_grad = Matrix(du.tensor());
    input_grad_op.gelu_input = {};
    input_grad_op.swiglu_input = u.tensor();
    input_grad_op.du = du.tensor();
    CHECK(gpu.difference(input_grad, 1, input_grad_op) == "");

    const Integers dbias = integers(1, outputs, DType::f32);
    const Tensor dbias_row(dbias.tensor().data(), DType::f32, {outputs});
    Gemm weight_grad = {.a = Matrix(gelu.tensor()).transposed(),
                        .b = Matrix(x.tensor()),
                        .c = Matrix(dweight.tensor()),
                        .accumulate = true};
    for (const auto& [parts, with_bias] :
         {std::pair(1, false), std::pair(3, true), std::pair(16, true)}) {
        CAPTURE(parts);
        // The kernel stores no sums there, but wants to know that they are asked for.
        weight_grad.a_sums = weight_grad.a_totals = with_bias ? dbias_row.as<float>() : nullptr;
        CHECK(gpu.difference(weight_grad, parts,
                             LinearWeightGrad{.x = x.tensor(),
                                              .dy = gelu.tensor(),
                                              .dweight = dweight.tensor(),
                                              .dbias = with_bias ? dbias_row : Tensor()}) == "");
    }
}

TEST_CASE("FP8 GEMMs by the kernel for sm_90a agree with cuBLASLt", "[sm90-gemm]") {
    Gpu gpu;
    if (gpu.properties.major != 9 || gpu.properties.minor != 0) return;
    const auto [tokens, inputs, outputs] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
        {{4096, 768, 3072}, {1008, 1040, 1328}, {16, 64, 16}}));
    CAPTURE(tokens, inputs, outputs);
    const auto integers = [&](std::int64_t rows, std::int64_t cols, DType of) {
        return Integers(of, rows, cols, gpu.stream);
    };
    const Integers x = integers(tokens, inputs, DType::f8e4m3);
    const Integers weight = integers(outputs, inputs, DType::f8e4m3);
    const Integers dy = integers(tokens, outputs, DType::f8e5m2);
    const Integers weight_columns = integers(inputs, outputs, DType::f8e4m3);
    const Integers x_columns = integers(inputs, tokens, DType::f8e4m3);
    const Integers dy_columns = integers(outputs, tokens, DType::f8e5m2);
    const Integers y = integers(tokens, outputs, DType::bf16);
    const Integers dx = integers(tokens, inputs, DType::bf16);
    const Integers dweight = integers(outputs, inputs, DType::f32);
    const Integers bias = integers(1, outputs, DType::bf16);
    const Integers scales = integers(1, 4, DType::f32);
    const Tensor bias_row(bias.tensor().data(), DType::bf16, {outputs});
    const Tensor scale(scales.tensor().data(), DType::f32, {1});
    const auto rows = [&](const Integers& of) { return Fp8Matrix{of.tensor(), {}, scale}; };
    const auto columns = [&](const Integers& of) { return Fp8Matrix{{}, of.tensor(), scale}; };

    CHECK(gpu.difference({.a = Matrix(x.tensor(), scale),
                          .b = Matrix(weight.tensor(), scale).transposed(),
                          .c = Matrix(y.tensor()),
                          .bias = bias_row.data(),
                          .fast_accumulation = true},
                         1,
                         LinearForward{.x = {},
                                       .weight = {},
                                       .bias = bias_row,
                                       .y = y.tensor(),
                                       .x8 = rows(x),
                                       .weight8 = rows(weight)}) == "");
    CHECK(gpu.difference({.a = Matrix(dy.tensor(), scale),
                          .b = Matrix(weight_columns.tensor(), scale).transposed(),
                          .c = Matrix(dx.tensor())},
                         1,
                         LinearInputGrad{.dy = {},
                                         .weight = {},
                                         .gelu_input = {},
                                         .dx = dx.tensor(),
                                         .dy8 = rows(dy),
                                         .weight8 = columns(weight_columns)}) == "");
    for (const std::int64_t parts : {1, 3}) {
        CAPTURE(parts);
        CHECK(gpu.difference({.a = Matrix(dy_columns.tensor(), scale),
                              .b = Matrix(x_columns.tensor(), scale).transposed(),
                              .c = Matrix(dweight.tensor()),
                              .accumulate = true},
                             parts,
                             LinearWeightGrad{.x = {},
                                              .dy = {},
                                              .dweight = dweight.tensor(),
                                              .dbias = {},
                                              .x8 = columns(x_columns),
                                              .dy8 = columns(dy_columns)}) == "");
        // The tensor cores keep 13 bits behind the first of a sum of 128, and fp32 the rest.
        float sum = 0;
        for (std::int64_t t = 0; t < tokens; ++t)
            sum += Integers::large(t, outputs) * Integers::large(t, inputs);
        float first = 0;
        copy(reinterpret_cast<std::byte*>(&first), dweight.tensor().data(), sizeof first,
             gpu.stream);
        gpu.stream.synchronize();
        CHECK(first == sum * Integers::small(0, 1) * Integers::small(0, 1));
    }
}

TEST_CASE("the kernel for sm_90a scales blocks of FP8", "[sm90-gemm]") {
    Gpu gpu;
    if (gpu.properties.major != 9 || gpu.properties.minor != 0) return;
    constexpr std::int64_t tokens = 1000, inputs = 640, outputs = 384;
    const Integers x(DType::f8e4m3, tokens, inputs, gpu.stream);
    const Integers weight(DType::f8e4m3, outputs, inputs, gpu.stream);
    const Shape x_shape = fp8_row_scales(tokens, inputs);
    const Shape weight_shape = fp8_block_scales(outputs, inputs);
    const Integers x_scales(DType::f32, x_shape[0], x_shape[1], gpu.stream);
    const Integers weight_scales(DType::f32, weight_shape[0], weight_shape[1], gpu.stream);
    const Integers y(DType::bf16, tokens, outputs, gpu.stream);
    const Gemm gemm = {.a = Matrix(x.tensor(), x_scales.tensor()),
                       .b = Matrix(weight.tensor(), weight_scales.tensor()).transposed(),
                       .c = Matrix(y.tensor())};
    REQUIRE(sm90::covers_gemm(gemm));
    sm90::multiply(gemm, 1, gpu.context());
    std::vector<Bf16> row(static_cast<std::size_t>(outputs));
    constexpr std::int64_t at = tokens - 1;
    copy(reinterpret_cast<std::byte*>(row.data()), y.tensor().data() + at * outputs * 2,
         outputs * 2, gpu.stream);
    gpu.stream.synchronize();
    for (std::int64_t o = 0; o < outputs; ++o) {
        CAPTURE(o);
        float sum = 0;
        for (std::int64_t k = 0; k < inputs; ++k) {
            const std::int64_t block = k / fp8_block;
            sum += Integers::large(at * inputs + k, tokens) *
                   Integers::large(o * inputs + k, outputs) *
                   Integers::small(block * tokens + at, x_shape[0]) *
                   Integers::small(o / fp8_block * weight_shape[1] + block, weight_shape[0]);
        }
        CHECK(to_float(row[static_cast<std::size_t>(o)]) == to_float(to_bf16(sum)));
    }
}

TEST_CASE("the kernel for sm_90a scales blocks of FP8 along tokens", "[sm90-gemm]") {
    Gpu gpu;
    if (gpu.properties.major != 9 || gpu.properties.minor != 0) return;
    constexpr std::int64_t tokens = 1008, inputs = 280, outputs = 392;
    const std::int64_t parts = GENERATE(1, 3);
    CAPTURE(parts);
    const Integers x(DType::f8e4m3, inputs, tokens, gpu.stream);
    const Integers dy(DType::f8e4m3, outputs, tokens, gpu.stream);
    const std::int64_t blocks = div_ceil(tokens, fp8_block);
    const Integers x_scales(DType::f32, blocks, inputs, gpu.stream);
    const Integers dy_scales(DType::f32, blocks, outputs, gpu.stream);
    const Integers dweight(DType::f32, outputs, inputs, gpu.stream);
    const Gemm gemm = {.a = Matrix(dy.tensor(), dy_scales.tensor()),
                       .b = Matrix(x.tensor(), x_scales.tensor()).transposed(),
                       .c = Matrix(dweight.tensor()),
                       .accumulate = true};
    REQUIRE(sm90::covers_gemm(gemm));
    sm90::multiply(gemm, parts, gpu.context());
    std::vector<float> row(static_cast<std::size_t>(inputs));
    constexpr std::int64_t at = outputs - 1;
    copy(reinterpret_cast<std::byte*>(row.data()), dweight.tensor().data() + at * inputs * 4,
         inputs * 4, gpu.stream);
    gpu.stream.synchronize();
    for (std::int64_t i = 0; i < inputs; ++i) {
        CAPTURE(i);
        float sum = Integers::small(at * inputs + i, outputs);
        for (std::int64_t t = 0; t < tokens; ++t) {
            const std::int64_t block = t / fp8_block;
            sum += Integers::large(at * tokens + t, outputs) *
                   Integers::large(i * tokens + t, inputs) *
                   Integers::small(block * outputs + at, blocks) *
                   Integers::small(block * inputs + i, blocks);
        }
        CHECK(row[static_cast<std::size_t>(i)] == sum);
    }
}

TEST_CASE("GEMMs of experts by the kernel for sm_90a agree with the other kernel", "[sm90-gemm]") {
    Gpu gpu;
    if (gpu.properties.major != 9 || gpu.properties.minor != 0) return;
    using enum GroupedKind;
    const DType dtype = GENERATE(DType::bf16, DType::f16);
    struct Size {
        std::vector<std::int32_t> offsets;
        std::int64_t rows, parts, outputs, inputs;
    };
    // All multiprocessors have work; sizes end inside of tiles, panels and steps.
    const Size size = GENERATE(Size{{0, 900, 1800, 4096}, 4096, 2, 1024, 768},
                               Size{{0, 70, 70, 329, 332}, 340, 2, 72, 264});
    CAPTURE(name_of(dtype), size.rows);
    const auto experts = std::ssize(size.offsets) - 1;
    const auto integers = [&](std::int64_t rows, std::int64_t cols, DType of) {
        return Integers(of, rows, cols, gpu.stream);
    };
    const std::int64_t outputs = size.parts * size.outputs;
    const Shape matrices = {size.parts, experts, size.outputs, size.inputs};
    const Integers x = integers(size.rows, size.inputs, dtype);
    const Integers y = integers(size.rows, outputs, dtype);
    const Integers dx = integers(size.rows, size.inputs, dtype);
    const Integers all = integers(outputs * experts, size.inputs, dtype);
    const Integers gradients = integers(outputs * experts, size.inputs, DType::f32);
    const Integers all_bias = integers(experts, outputs, dtype);
    const Integers begins = integers(1, experts + 1, DType::f32);
    const Tensor weight = all.tensor().view(matrices);
    const Tensor dweight = gradients.tensor().view(matrices);
    const Tensor bias = all_bias.tensor().view({size.parts, experts, size.outputs});
    const Tensor offsets(begins.tensor().data(), DType::i32, {experts + 1});
    copy(offsets.data(), reinterpret_cast<const std::byte*>(size.offsets.data()), offsets.bytes(),
         gpu.stream);
    gpu.stream.synchronize();

    CHECK(gpu.difference(GroupedGemm{.kind = forward,
                                     .a = x.tensor(),
                                     .b = weight,
                                     .c = y.tensor(),
                                     .offsets = offsets,
                                     .bias = bias},
                         GroupedForward{.x = x.tensor(),
                                        .weight = weight,
                                        .offsets = offsets,
                                        .y = y.tensor(),
                                        .bias = bias}) == "");
    CHECK(gpu.difference(
              GroupedGemm{.kind = input_grad,
                          .a = y.tensor(),
                          .b = weight,
                          .c = dx.tensor(),
                          .offsets = offsets},
              GroupedInputGrad{
                  .dy = y.tensor(), .weight = weight, .offsets = offsets, .dx = dx.tensor()}) ==
          "");
    for (const bool accumulate : {false, true}) {
        CAPTURE(accumulate);
        CHECK(gpu.difference(GroupedGemm{.kind = weight_grad,
                                         .a = y.tensor(),
                                         .b = x.tensor(),
                                         .c = dweight,
                                         .offsets = offsets,
                                         .accumulate = accumulate},
                             GroupedWeightGrad{.x = x.tensor(),
                                               .dy = y.tensor(),
                                               .offsets = offsets,
                                               .dweight = dweight,
                                               .accumulate = accumulate}) == "");
    }
}

}  // namespace gptrain::cuda
