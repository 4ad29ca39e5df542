#include "cuda/gemm/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace gptrain::cuda {
namespace {

std::vector<std::int64_t> sampled_rows(std::int64_t rows) {
    std::vector<std::int64_t> sampled;
    for (std::int64_t row = 0; row < rows; row += compared_row_distance)
        sampled.push_back(row);
    if (sampled.back() != rows - 1) sampled.push_back(rows - 1);
    return sampled;
}

std::byte* row_of(const Matrix& matrix, std::int64_t row) {
    return matrix.data + row * matrix.row_stride * size_of(matrix.dtype);
}

float value_of(const std::byte* at, DType dtype) {
    const auto as = [at](auto type) {
        std::memcpy(&type, at, sizeof type);
        return to_float(type);
    };
    switch (dtype) {
        case DType::bf16: return as(Bf16{});
        case DType::f16: return as(F16{});
        case DType::f32: return as(float{});
        default: fail(ExitCode::bug, "no result of ", name_of(dtype));
    }
}

using Row = std::vector<float>;

/// The sampled rows of the matrix, after all work of the stream.
std::vector<Row> read(const Matrix& matrix, const Stream& stream) {
    const std::int64_t size = size_of(matrix.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.cols * size));
    std::vector<Row> all;
    for (const std::int64_t row : sampled_rows(matrix.rows)) {
        copy(bytes.data(), row_of(matrix, row), std::ssize(bytes), stream);
        stream.synchronize();
        Row& values = all.emplace_back(static_cast<std::size_t>(matrix.cols));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = value_of(bytes.data() + static_cast<std::int64_t>(i) * size, matrix.dtype);
    }
    return all;
}

/// The share of a row's largest element by which sums differ. Sums of 2^17 products in fp32 differ
/// by less than 2^-16. Tensor cores that add products of FP8 keep 13 bits behind the largest one's
/// first (docs/numerics.md, "FP8"): for random operands that is 2^-10 if fp32 takes over after 128
/// products. With fast accumulation the errors of all multiplies point to 0.
float noise_of(const Gemm& gemm) {
    if (!gemm.a.is_fp8()) return 0x1p-12f;
    return gemm.fast_accumulation ? 0x1p-6f : 0x1p-8f;
}

/// The largest difference of two elements of a row that rounding explains, given the row's largest
/// element and the noise of sums: both then round to 16 bits, and a GELU may be of the sums before
/// they are rounded.
float tolerance(DType dtype, float noise, float x, float y, float largest) {
    if (dtype == DType::f32) return noise * largest;
    return 0x1p-6f * std::max(std::abs(x), std::abs(y)) + std::max(0x1p-9f, noise) * largest;
}

std::string difference_of(const char* name, DType dtype, float noise,
                          const std::vector<Row>& reference, const std::vector<Row>& other,
                          std::int64_t rows) {
    const std::vector<std::int64_t> numbers = sampled_rows(rows);
    for (std::size_t r = 0; r < reference.size(); ++r) {
        float largest = 0;
        for (const float x : reference[r])
            if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
        for (std::size_t i = 0; i < reference[r].size(); ++i) {
            const float x = reference[r][i];
            const float y = other[r][i];
            const bool both = std::isfinite(x) && std::isfinite(y);
            const bool neither = !std::isfinite(x) && !std::isfinite(y);
            const bool close = both && std::abs(x - y) <= tolerance(dtype, noise, x, y, largest);
            if (!close && !neither)
                return text(name, "[", numbers[r], ", ", i, "] is ", y, " instead of ", x);
        }
    }
    return {};
}

}  // namespace

std::string result_difference(const Gemm& gemm, const std::function<void()>& reference,
                              const std::function<void()>& other, const Stream& stream) {
    // NaN, or 0 where the GEMM adds: a run that writes nothing must not pass.
    const auto clear = [&](const Matrix& matrix, int byte) {
        for (const std::int64_t row : sampled_rows(matrix.rows))
            set_bytes(row_of(matrix, row), byte, matrix.cols * size_of(matrix.dtype), stream);
    };
    struct Results {
        std::vector<Row> c;
        std::vector<Row> activated;
        std::vector<Row> totals;
    };
    const auto read_if_any = [&](const Matrix& matrix) {
        return matrix.data == nullptr ? std::vector<Row>() : read(matrix, stream);
    };
    const Matrix totals =
        gemm.a_totals == nullptr ? Matrix() : Matrix(gemm.a_totals, 1, gemm.a.rows);
    const Matrix& c = gemm.swiglu_grad.data != nullptr ? gemm.swiglu_grad : gemm.c;
    const Matrix& activated = gemm.swiglu.data != nullptr ? gemm.swiglu : gemm.gelu;
    const auto run = [&](const std::function<void()>& work) {
        clear(c, gemm.accumulate ? 0 : 0xff);
        if (activated.data != nullptr) clear(activated, 0xff);
        if (totals.data != nullptr) clear(totals, 0);
        work();
        return Results{read(c, stream), read_if_any(activated), read_if_any(totals)};
    };
    const Results expected = run(reference);
    const Results results = run(other);
    const float noise = noise_of(gemm);
    const std::string in_c = difference_of("c", c.dtype, noise, expected.c, results.c, c.rows);
    if (!in_c.empty()) return in_c;
    const std::string in_activated = difference_of("activated", activated.dtype, noise,
                                                   expected.activated, results.activated, c.rows);
    if (!in_activated.empty()) return in_activated;
    return difference_of("a_totals", DType::f32, noise, expected.totals, results.totals, 1);
}

}  // namespace gptrain::cuda
