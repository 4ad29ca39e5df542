#include "cpu/fp8.h"

#include <algorithm>
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

/// How the values of a block are stored.
struct BlockScale {
    explicit BlockScale(float amax)
        : scale(amax >= fp8_smallest_amax ? amax / F8E4M3::largest : 1),
          factor(amax >= fp8_smallest_amax ? F8E4M3::largest / amax : 1) {}
    F8E4M3 stored(float x) const { return gptrain::to_fp8<F8E4M3>(x * factor); }
    float scale;
    float factor;
};

}  // namespace

void run(const UpdateAmax& args) {
    const bool whole = args.x.contiguous();
    GPTRAIN_CHECK(whole || (args.x.rank() == 2 && args.x.stride(1) == 1), "args.amax of ",
                  args.x.shape().to_text());
    std::array<float, max_parts> parts{};
    const std::int64_t count = args.x.elements();
    const std::int64_t width = whole ? 1 : args.x.size(1);
    const std::int64_t stride = whole ? 1 : args.x.stride(0);
    const std::int64_t rows = whole ? count : args.x.size(0);
    with_compute_type(args.x.dtype(), [&](auto type) {
        const auto* values = args.x.as<decltype(type)>();
        parallel_items(max_parts, count / max_parts, [&](std::int64_t part) {
            const std::int64_t begin = rows * part / max_parts;
            const std::int64_t end = rows * (part + 1) / max_parts;
            float& found = parts[static_cast<std::size_t>(part)];
            for (std::int64_t row = begin; row < end; ++row)
                found = std::fmax(found, largest_magnitude(values + row * stride, width));
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

template <class T>
void to_fp8_row(const T* x, const Fp8Matrix& out, std::int64_t row) {
    const std::int64_t cols = out.rowwise.size(1);
    auto* stored = out.rowwise.as<F8E4M3>() + row * cols;
    auto* scales = out.scale.as<float>() + row;
    for (std::int64_t col = 0; col < cols; col += fp8_block) {
        const BlockScale scale(largest_magnitude(x + col, fp8_block));
        scales[col / fp8_block * out.scale.size(1)] = scale.scale;
        for (std::int64_t i = col; i < col + fp8_block; ++i)
            stored[i] = scale.stored(to_float(x[i]));
    }
}
template void to_fp8_row(const float* x, const Fp8Matrix& out, std::int64_t row);
template void to_fp8_row(const Bf16* x, const Fp8Matrix& out, std::int64_t row);
template void to_fp8_row(const F16* x, const Fp8Matrix& out, std::int64_t row);

void run(const ToFp8Rows& args) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    GPTRAIN_CHECK(cols % fp8_block == 0 && args.out.scale.shape() == fp8_row_scales(rows, cols),
                  "args.x of ", args.x.shape().to_text(), ", scales of ",
                  args.out.scale.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        const auto* x = args.x.as<decltype(type)>();
        const std::int64_t stride = args.x.stride(0);
        parallel_items(rows, cols,
                       [&](std::int64_t row) { to_fp8_row(x + row * stride, args.out, row); });
    });
}

void run(const ToFp8Columns& args) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    const Fp8Matrix& out = args.out;
    GPTRAIN_CHECK(out.columnwise.shape() == Shape({cols, rows}) &&
                      out.column_scale.shape() == fp8_row_scales(cols, rows),
                  "args.x of ", args.x.shape().to_text(), ", scales of ",
                  out.column_scale.shape().to_text());
    auto* stored = out.columnwise.as<F8E4M3>();
    auto* scales = out.column_scale.as<float>();
    with_compute_type(args.x.dtype(), [&](auto type) {
        const auto* x = args.x.as<decltype(type)>();
        const std::int64_t stride = args.x.stride(0);
        parallel_items(div_ceil(rows, fp8_block), fp8_block * cols, [&](std::int64_t block) {
            const std::int64_t begin = block * fp8_block;
            const std::int64_t end = std::min(begin + fp8_block, rows);
            float* amaxes = scales + block * cols;
            std::fill_n(amaxes, cols, 0.0f);
            for (std::int64_t row = begin; row < end; ++row) {
                for (std::int64_t col = 0; col < cols; ++col)
                    amaxes[col] =
                        std::fmax(amaxes[col], std::fabs(to_float(x[row * stride + col])));
            }
            for (std::int64_t col = 0; col < cols; ++col) {
                const BlockScale scale(amaxes[col]);
                for (std::int64_t row = begin; row < end; ++row)
                    stored[col * rows + row] = scale.stored(to_float(x[row * stride + col]));
                scales[block * cols + col] = scale.scale;
            }
        });
    });
    if (!args.row_sum.empty()) run(BiasGrad{.dy = args.x, .dbias = args.row_sum});
}

void run(const ToFp8Blocks& args) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    const Fp8Matrix& out = args.out;
    GPTRAIN_CHECK(args.x.contiguous() && out.scale.shape() == fp8_block_scales(rows, cols) &&
                      out.column_scale.shape() == fp8_block_scales(cols, rows),
                  "args.x of ", args.x.shape().to_text(), ", scales of ",
                  out.scale.shape().to_text());
    auto* by_rows = out.rowwise.as<F8E4M3>();
    auto* by_columns = out.columnwise.as<F8E4M3>();
    auto* scales = out.scale.as<float>();
    auto* column_scales = out.column_scale.as<float>();
    std::fill_n(scales, out.scale.elements(), 0.0f);
    std::fill_n(column_scales, out.column_scale.elements(), 0.0f);
    const std::int64_t blocks_of_row = cols / fp8_block;
    with_compute_type(args.x.dtype(), [&](auto type) {
        const auto* x = args.x.as<decltype(type)>();
        const std::int64_t blocks = rows / fp8_block * blocks_of_row;
        parallel_items(blocks, fp8_block * fp8_block, [&](std::int64_t block) {
            const std::int64_t row_block = block / blocks_of_row;
            const std::int64_t col_block = block % blocks_of_row;
            const std::int64_t first = row_block * fp8_block * cols + col_block * fp8_block;
            float amax = 0;
            for (std::int64_t i = 0; i < fp8_block; ++i)
                amax = std::fmax(amax, largest_magnitude(x + first + i * cols, fp8_block));
            const BlockScale scale(amax);
            scales[row_block * out.scale.size(1) + col_block] = scale.scale;
            column_scales[col_block * out.column_scale.size(1) + row_block] = scale.scale;
            for (std::int64_t i = 0; i < fp8_block * fp8_block; ++i) {
                const std::int64_t at = first + i / fp8_block * cols + i % fp8_block;
                const F8E4M3 stored = scale.stored(to_float(x[at]));
                by_rows[at] = stored;
                by_columns[at % cols * rows + at / cols] = stored;
            }
        });
    });
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
