// FP8 in blocks where cuBLASLt has no such GEMM; over the library in fake_cublas_lt.cpp, which then
// declines it, and the emulator's device.
#include <algorithm>
#include <cublasLt.h>

#include "catch.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/plain_rows.h"
#include "cuda/gemm/sm90/gemm.h"
#include "cuda/gemm/tuning.h"
#include "cuda/gemm_operands.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;

/// Not our kernel, only what it is compared with.
void plain_rows_alone(const GemmPart& part, const OpContext& context) {
    if (part.kind == GemmPart::Kind::plain_rows) multiply_plain_rows(part.gemm, context.stream);
}

void kernel(const GemmPart& part, const OpContext& context) {
    if (part.kind == GemmPart::Kind::sm90)
        return sm90::multiply(part.gemm, part.sm90_parts, context);
    plain_rows_alone(part, context);
}

const F8E4M3 one = to_fp8<F8E4M3>(1);

/// y = x w^T + bias, of ones of FP8 in blocks. The scales make the first 128 products 1/2 each, the
/// others 4: each y is 64 + 512 + 4. Rows 0, 67 and 70 are compared.
class Blocks : Operands {
public:
    Blocks() {
        std::fill(x_scales_.as<float>(), x_scales_.as<float>() + rows, 0.5f);
        weight_scales_.as<float>()[1] = 2;
    }
    Gemm gemm() const {
        return {.a = Matrix(x_, x_scales_),
                .b = Matrix(weight_, weight_scales_).transposed(),
                .c = Matrix(y_),
                .bias = bias_.data()};
    }
    void clear() const { std::fill(y(0), y(rows), to_bf16(before)); }
    Bf16* y(std::int64_t row) const { return y_.as<Bf16>() + row * columns; }
    bool row_is(std::int64_t row, float value) const {
        return std::all_of(y(row), y(row + 1), [=](Bf16 each) { return to_float(each) == value; });
    }

    static constexpr std::int64_t rows = 71;
    static constexpr std::int64_t columns = 128;
    static constexpr std::int64_t length = 256;
    static constexpr float right = 580;
    static constexpr float before = 8;

private:
    Tensor x_ = filled(DType::f8e4m3, {rows, length}, one);
    Tensor x_scales_ = filled(DType::f32, fp8_row_scales(rows, length), 2.0f);
    Tensor weight_ = filled(DType::f8e4m3, {columns, length}, one);
    Tensor weight_scales_ = filled(DType::f32, fp8_block_scales(columns, length), 1.0f);
    Tensor bias_ = filled(DType::bf16, {columns}, to_bf16(4));
    Tensor y_ = make(DType::bf16, {rows, columns});
};

/// dW += dy^T x, of ones in blocks of 1 x 128. The first 128 products are 1/2 each, the other 16
/// are 8 each; in odd columns twice as much. It adds 192 and 384 to fp32.
class Strips : Operands {
public:
    Strips() {
        std::fill(dy_scales_.as<float>(), dy_scales_.as<float>() + rows, 0.5f);
        for (std::int64_t i = 0; i < x_scales_.elements(); ++i)
            x_scales_.as<float>()[i] = static_cast<float>((1 + i % 2) * (i < columns ? 1 : 4));
    }
    Gemm gemm() const {
        return {.a = Matrix(dy_, dy_scales_),
                .b = Matrix(x_, x_scales_).transposed(),
                .c = Matrix(dweight_),
                .accumulate = true};
    }
    void clear() const { std::fill(row(0), row(rows), before); }
    float* row(std::int64_t number) const { return dweight_.as<float>() + number * columns; }
    bool row_is_right(std::int64_t number) const {
        for (std::int64_t i = 0; i < columns; ++i)
            if (row(number)[i] != before + static_cast<float>((1 + i % 2) * 192)) return false;
        return true;
    }

    static constexpr std::int64_t rows = 80;
    static constexpr std::int64_t columns = 48;
    static constexpr std::int64_t length = 144;
    static constexpr float before = 0x1p-10f;  ///< lost in bf16

private:
    Tensor dy_ = filled(DType::f8e4m3, {rows, length}, one);
    Tensor dy_scales_ = filled(DType::f32, fp8_row_scales(rows, length), 2.0f);
    Tensor x_ = filled(DType::f8e4m3, {columns, length}, one);
    Tensor x_scales_ = make(DType::f32, fp8_row_scales(columns, length));
    Tensor dweight_ = make(DType::f32, {rows, columns});
};

TEST_CASE("plain rows of a GEMM in blocks are those that are compared", "[gemms]") {
    const EmulatedHopper settings;
    const Blocks blocks;
    Gemm gemm = blocks.gemm();
    const Stream stream;
    const auto run = [&] {
        blocks.clear();
        multiply_plain_rows(gemm, stream);
        stream.synchronize();
    };
    run();
    for (const std::int64_t row : {0, 67, 70})
        CHECK(blocks.row_is(row, Blocks::right));
    for (const std::int64_t row : {1, 66, 68, 69})
        CHECK(blocks.row_is(row, Blocks::before));
    gemm.bias = nullptr;
    gemm.accumulate = true;
    run();
    CHECK(blocks.row_is(70, Blocks::right - 4 + Blocks::before));
    const Strips strips;
    strips.clear();
    multiply_plain_rows(strips.gemm(), stream);
    stream.synchronize();
    for (const std::int64_t row : {0, 67, 79})
        CHECK(strips.row_is_right(row));
    CHECK(strips.row(78)[0] == Strips::before);
}

TEST_CASE("where the library has no FP8 in blocks, ours is compared with plain rows", "[gemms]") {
    const EmulatedHopper settings;
    Device device;
    const Blocks blocks;
    const Answer declines(fake_desc_set, fake_plain, CUBLAS_STATUS_NOT_SUPPORTED);
    const Answer declines_bias(fake_desc_set, fake_with_epilogue, CUBLAS_STATUS_NOT_SUPPORTED);
    TuningTable table;
    Gemms gemms(device.properties, &table, true);
    const auto run = [&](PartKernel* kernel_of_ours) {
        gemms.run(blocks.gemm(), kernel_of_ours, device.context());
    };
    // One error where neither computes it.
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { gemms.tune([&] { run(plain_rows_alone); }); }),
        "set precision.fp8_recipe to tensor"));
    CHECK(contains(table.to_text(), "\nentries 0\n"));
    gemms.tune([&] { run(kernel); });
    CHECK(contains(table.to_text(), " sm90:1\nentries 1\n"));
    blocks.clear();
    run(kernel);
    device.synchronize();
    for (std::int64_t row = 0; row < Blocks::rows; ++row)
        CHECK(blocks.row_is(row, Blocks::right));
}

TEST_CASE("weight gradients in blocks are the library's, or ours where it declines", "[gemms]") {
    const EmulatedHopper settings;
    Device device;
    const Strips strips;
    TuningTable table;
    Gemms gemms(device.properties, &table, true);
    const auto check = [&](PartKernel* kernel_of_ours) {
        device.synchronize();
        strips.clear();
        gemms.run(strips.gemm(), kernel_of_ours, device.context());
        device.synchronize();
        for (std::int64_t row = 0; row < Strips::rows; ++row)
            CHECK(strips.row_is_right(row));
    };
    check(no_kernel);
    // One error where neither computes it, before the first step.
    const Answer declines(fake_desc_set, fake_plain, CUBLAS_STATUS_NOT_SUPPORTED);
    const auto tune = [&](PartKernel* kernel_of_ours) {
        gemms.tune([&] { gemms.run(strips.gemm(), kernel_of_ours, device.context()); });
    };
    CHECK(contains(test::message_of(ExitCode::usage, [&] { tune(plain_rows_alone); }),
                   "set precision.fp8_weight_gradients to bf16"));
    tune(kernel);
    CHECK(contains(table.to_text(), " sm90:1\nentries 1\n"));
    check(kernel);
}

}  // namespace
}  // namespace gptrain::cuda
