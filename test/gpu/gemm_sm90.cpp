// The GEMM kernel for sm_90a next to cuBLASLt and the kernels for separate epilogues, on a GPU of
// compute capability 9.0.
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

/// A matrix on the device, of integers from -3 to 3.
class Integers {
public:
    Integers(DType dtype, std::int64_t rows, std::int64_t cols, const Stream& stream)
        : tensor_(allocate(rows * cols * size_of(dtype), MemorySpace::device), dtype,
                  {rows, cols}) {
        std::vector<std::byte> values(static_cast<std::size_t>(tensor_.bytes()));
        for (std::int64_t i = 0; i < tensor_.elements(); ++i) {
            const auto x = static_cast<float>((i * 5 + i / 11 * 3 + rows) % 7 - 3);
            if (dtype == DType::f32) reinterpret_cast<float*>(values.data())[i] = x;
            if (dtype == DType::bf16) reinterpret_cast<Bf16*>(values.data())[i] = to_bf16(x);
            if (dtype == DType::f16) reinterpret_cast<F16*>(values.data())[i] = to_f16(x);
        }
        copy(tensor_.data(), values.data(), tensor_.bytes(), stream);
        stream.synchronize();
    }
    Integers(const Integers&) = delete;
    Integers& operator=(const Integers&) = delete;
    ~Integers() { release(tensor_.data(), MemorySpace::device); }
    const Tensor& tensor() const { return tensor_; }

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

    const Gemm input_grad = {.a = Matrix(gelu.tensor()),
                             .b = Matrix(weight.tensor()),
                             .c = Matrix(dx.tensor()),
                             .gelu_input = Matrix(x.tensor())};
    CHECK(gpu.difference(input_grad, 1,
                         LinearInputGrad{.dy = gelu.tensor(),
                                         .weight = weight.tensor(),
                                         .gelu_input = x.tensor(),
                                         .dx = dx.tensor()}) == "");

    const Gemm weight_grad = {.a = Matrix(gelu.tensor()).transposed(),
                              .b = Matrix(x.tensor()),
                              .c = Matrix(dweight.tensor()),
                              .accumulate = true};
    for (const std::int64_t parts : {1, 3, 16}) {
        CAPTURE(parts);
        CHECK(gpu.difference(weight_grad, parts,
                             LinearWeightGrad{.x = x.tensor(),
                                              .dy = gelu.tensor(),
                                              .dweight = dweight.tensor(),
                                              .dbias = {}}) == "");
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
