#include "cpu/fp8.h"

#include <array>
#include <cmath>

#include "cpu/linear_bias.h"
#include "cpu/parallel.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Number of parts whose amaxes are computed separately.
constexpr std::int64_t max_parts = 64;

template <class T>
float largest_magnitude(const T* x, std::int64_t count) {
    float largest = 0;
    for (std::int64_t i = 0; i < count; ++i)
        largest = std::fmax(largest, std::fabs(to_float(x[i])));
    return largest;
}

template <class T, class Fp8>
void convert(const ToFp8& args) {
    const bool flat = args.x.rank() == 1;
    const std::int64_t rows = flat ? 1 : args.x.size(0);
    const std::int64_t cols = args.x.size(-1);
    const std::int64_t stride = flat ? cols : args.x.stride(0);
    const auto* x = args.x.as<T>();
    Fp8* by_rows = pointer_or_null<Fp8>(args.out.rowwise);
    Fp8* by_columns = pointer_or_null<Fp8>(args.out.columnwise);
    const float amax = *args.amax.as<float>();
    const bool given = amax >= fp8_smallest_amax;
    *args.out.scale.as<float>() = given ? amax / Fp8::largest : 1;
    const float factor = given ? Fp8::largest / amax : 1;
    parallel_ranges(rows * cols, 8, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t row = i / cols;
            const std::int64_t col = i % cols;
            const auto stored = gptrain::to_fp8<Fp8>(to_float(x[row * stride + col]) * factor);
            if (by_rows != nullptr) by_rows[i] = stored;
            if (by_columns != nullptr) by_columns[col * rows + row] = stored;
        }
    });
}

}  // namespace

void run(const UpdateAmax& args) {
    GPTRAIN_CHECK(args.x.contiguous(), "args.amax of ", args.x.shape().to_text());
    std::array<float, max_parts> parts{};
    const std::int64_t count = args.x.elements();
    with_compute_type(args.x.dtype(), [&](auto type) {
        const auto* values = args.x.as<decltype(type)>();
        parallel_items(max_parts, count / max_parts, [&](std::int64_t part) {
            const std::int64_t begin = count * part / max_parts;
            const std::int64_t end = count * (part + 1) / max_parts;
            parts[static_cast<std::size_t>(part)] = largest_magnitude(values + begin, end - begin);
        });
    });
    float& largest = *args.amax.as<float>();
    for (const float part : parts)
        largest = std::fmax(largest, part);
}

void run(const ToFp8& args) {
    const Tensor& out = args.out.rowwise.empty() ? args.out.columnwise : args.out.rowwise;
    GPTRAIN_CHECK(args.out.columnwise.empty() || args.x.rank() == 2, "the transpose of ",
                  args.x.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        with_fp8_type(out.dtype(), [&](auto fp8) { convert<decltype(type), decltype(fp8)>(args); });
    });
    if (!args.row_sum.empty()) run(BiasGrad{.dy = args.x, .dbias = args.row_sum});
}

void run(const TransposeFp8& args) {
    const Tensor& from = args.rowwise;
    const std::int64_t rows = from.size(0);
    const std::int64_t cols = from.size(1);
    GPTRAIN_CHECK(from.contiguous() && args.columnwise.shape() == Shape({cols, rows}) &&
                      args.columnwise.dtype() == from.dtype(),
                  "args.rowwise of ", from.shape().to_text(), ", args.columnwise of ",
                  args.columnwise.shape().to_text());
    const std::byte* x = from.data();
    std::byte* y = args.columnwise.data();
    parallel_items(cols, rows, [&](std::int64_t col) {
        for (std::int64_t row = 0; row < rows; ++row)
            y[col * rows + row] = x[row * cols + col];
    });
}

}  // namespace gptrain::cpu
