// oneDNN's GEMMs, whole and split into parts that need less scratch memory.
#include "cpu/gemm.h"

#include <omp.h>
#include <vector>

#include "base/text.h"
#include "catch.h"
#include "ops/host_tensor.h"

namespace gptrain::cpu {
namespace {

struct Kind {
    DType factors = DType::f32;
    DType result = DType::f32;
    bool bias = false;
    bool accumulate = false;
};

const std::vector<Kind> kinds = {
    {},
    {.accumulate = true},
    {.bias = true},
    {.factors = DType::bf16},
    {.factors = DType::bf16, .accumulate = true},
    {.factors = DType::bf16, .bias = true},
    {.factors = DType::bf16, .result = DType::bf16},
    {.factors = DType::bf16, .result = DType::bf16, .bias = true},
};

/// A matrix of -1, 0 and 1, each row padded by `gap` elements. GEMMs and sums of up to 250 of them
/// are exact in bf16.
struct Operand {
    HostTensor values;
    Matrix matrix;

    Operand(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
            std::uint32_t stream)
        : values(dtype, {rows, cols + gap}, random_integers(-1, 2), stream),
          matrix(values.tensor().slice(1, 0, cols)) {}
};

double at(const Matrix& matrix, std::int64_t row, std::int64_t col) {
    const Matrix element = matrix.block(row, 1, col, 1);
    return load(element.data, element.dtype);
}

/// Every element of c, including padding, that `gemm` should produce; `c` still has its contents
/// from before.
std::vector<double> expected(const Gemm& gemm, const HostTensor& c) {
    std::vector<double> result;
    const std::int64_t stride = c.shape()[1];
    for (std::int64_t i = 0; i < c.shape().elements(); ++i) {
        const std::int64_t row = i / stride;
        const std::int64_t col = i % stride;
        const bool padding = col >= gemm.c.cols;
        double sum = padding || gemm.accumulate ? c[i] : 0;
        if (!padding && gemm.bias != nullptr)
            sum += load(gemm.bias + col * size_of(gemm.a.dtype), gemm.a.dtype);
        for (std::int64_t k = 0; !padding && k < gemm.a.cols; ++k)
            sum += at(gemm.a, row, k) * at(gemm.b, k, col);
        result.push_back(sum);
    }
    return result;
}

void check(Gemms& gemms, const Kind& kind, bool transposed, std::int64_t scratch_bytes) {
    constexpr std::int64_t rows = 75;
    constexpr std::int64_t cols = 203;
    constexpr std::int64_t length = 96;
    constexpr std::int64_t gap = 5;
    INFO("scratch " << scratch_bytes << " transposed " << transposed << " factors "
                    << name_of(kind.factors) << " result " << name_of(kind.result) << " bias "
                    << kind.bias << " accumulate " << kind.accumulate);
    const Operand a(kind.factors, transposed ? length : rows, transposed ? rows : length, gap, 1);
    const Operand b(kind.factors, transposed ? cols : length, transposed ? length : cols, gap, 2);
    const Operand c(kind.result, rows, cols, gap, 3);
    const HostTensor bias(kind.factors, {cols}, random_integers(-1, 2), 4);
    const Gemm gemm = {.a = transposed ? a.matrix.transposed() : a.matrix,
                       .b = transposed ? b.matrix.transposed() : b.matrix,
                       .c = c.matrix,
                       .bias = kind.bias ? bias.bytes().data() : nullptr,
                       .accumulate = kind.accumulate};
    const std::vector<double> wanted = expected(gemm, c.values);
    std::vector<std::byte> scratch(static_cast<std::size_t>(scratch_bytes));
    gemms.multiply_within(gemm, scratch);
    std::vector<double> got;
    for (std::int64_t i = 0; i < c.values.shape().elements(); ++i)
        got.push_back(c.values[i]);
    CHECK(got == wanted);
}

/// A GEMM of sizes that are computed in two parts, as weight or input gradients are; with an odd
/// number of rows or columns. Slices of it that are too small for that have to give the same.
void check_large(Gemms& gemms, DType factors, bool weight_gradient) {
    INFO(name_of(factors) << " weight gradient " << weight_gradient);
    const std::int64_t rows = weight_gradient ? 515 : 384;
    const std::int64_t cols = weight_gradient ? 512 : 1025;
    const std::int64_t length = weight_gradient ? 520 : 16384;
    const Operand a(factors, weight_gradient ? length : rows, weight_gradient ? rows : length, 0,
                    1);
    const Operand b(factors, length, cols, 0, 2);
    const Operand whole(DType::f32, rows, cols, 0, 3);
    const Operand sliced(DType::f32, rows, cols, 0, 3);
    const Gemm gemm = {
        .a = weight_gradient ? a.matrix.transposed() : a.matrix, .b = b.matrix, .c = whole.matrix};
    std::vector<std::byte> scratch(
        static_cast<std::size_t>(Gemms::scratch_bytes(omp_get_max_threads())));
    for (const bool accumulate : {true, false}) {
        Gemm part = gemm;
        part.accumulate = accumulate;
        gemms.multiply_within(part, scratch);
        for (std::int64_t row = 0; row < rows; row += 128) {
            const std::int64_t size = std::min<std::int64_t>(128, rows - row);
            part.a = gemm.a.block(row, size, 0, length);
            part.c = sliced.matrix.block(row, size, 0, cols);
            gemms.multiply_within(part, scratch);
        }
        CHECK(whole.values == sliced.values);
    }
}

}  // namespace

TEST_CASE("large gradients are the same in two parts") {
    Gemms gemms;
    for (const DType factors : {DType::f32, DType::bf16}) {
        if (!gemms.native(factors)) continue;
        for (const bool weight_gradient : {true, false})
            check_large(gemms, factors, weight_gradient);
    }
}

TEST_CASE("a gemm is the same however little scratch memory there is") {
    // The smallest GEMMs need about 12 KiB per thread.
    const std::int64_t usual = Gemms::scratch_bytes(omp_get_max_threads());
    const std::int64_t little = (std::int64_t{16} << 10) * omp_get_max_threads();
    Gemms gemms;
    for (const Kind& kind : kinds) {
        if (!gemms.native(kind.factors)) continue;
        for (const bool transposed : {false, true}) {
            for (const std::int64_t bytes : {usual, little})
                check(gemms, kind, transposed, bytes);
        }
    }
}

}  // namespace gptrain::cpu
