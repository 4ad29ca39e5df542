// The references of matrices in FP8 and int8.
#include <algorithm>
#include <cmath>

#include "reference.h"

namespace gptrain::reference {
namespace {

struct Format {
    int digits;
    int least_exponent;
    double largest;
};

Format format_of(DType dtype) {
    return dtype == DType::f8e4m3 ? Format{4, -6, 448} : Format{3, -14, 57344};
}

/// The nearest number of the format, ties to even, clamped to its largest.
double nearest(double x, const Format& format) {
    if (x == 0) return x;
    const int exponent = std::max(std::ilogb(x), format.least_exponent);
    const double unit = std::ldexp(1, exponent - (format.digits - 1));
    const double whole = std::nearbyint(x / unit) * unit;
    return std::copysign(std::min(std::abs(whole), format.largest), x);
}

}  // namespace

void update_amax(const Array& x, Array& amax) {
    if (amax.empty()) return;
    for (const Bounded& value : x.values())
        amax(0) = std::max(amax(0).value, std::abs(value.value));
}

void to_fp8(const Array& x, const Array& amax, Array& rows, Array& columns, Array& scale) {
    const Format format = format_of((rows.empty() ? columns : rows).dtype());
    // These steps are part of the contract, in fp32.
    const auto largest = static_cast<float>(format.largest);
    const auto found = static_cast<float>(amax(0).value);
    const bool given = found >= 0x1p-100F;
    const float factor = given ? largest / found : 1;
    scale(0) = given ? found / largest : 1;
    const std::int64_t width = x.size(x.shape().rank() - 1);
    for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
        const double stored = nearest(static_cast<float>(x(i).value) * factor, format);
        if (!rows.empty()) rows(i) = stored;
        if (!columns.empty()) columns(i % width, i / width) = stored;
    }
}

Array from_fp8(const Array& stored, const Array& scale, bool transpose) {
    const Shape shape = {stored.size(transpose ? 1 : 0), stored.size(transpose ? 0 : 1)};
    Array matrix(shape);
    for (std::int64_t row = 0; row < shape[0]; ++row) {
        for (std::int64_t col = 0; col < shape[1]; ++col) {
            Bounded& factor = matrix(row, col);
            factor = (transpose ? stored(col, row) : stored(row, col)) * scale(0);
            factor.bound += fp8_factor_roundoff * std::abs(factor.value);
        }
    }
    return matrix;
}

void to_fp8_blocks(const Array& x, std::int64_t block_rows, Array& stored, Array& scales,
                   bool transpose) {
    const Format format = format_of(DType::f8e4m3);
    const auto value = [&](std::int64_t row, std::int64_t col) {
        return static_cast<float>((transpose ? x(col, row) : x(row, col)).value);
    };
    for (std::int64_t i = 0; i < scales.shape().elements(); ++i)
        scales(i) = 0;
    for (std::int64_t row = 0; row < stored.size(0); row += block_rows) {
        for (std::int64_t col = 0; col < stored.size(1); col += fp8_block) {
            // These steps are part of the contract, in fp32.
            float amax = 0;
            const std::int64_t end = std::min(col + fp8_block, stored.size(1));
            for (std::int64_t r = row; r < row + block_rows; ++r) {
                for (std::int64_t c = col; c < end; ++c)
                    amax = std::max(amax, std::abs(value(r, c)));
            }
            const bool given = amax >= 0x1p-100F;
            const float factor = given ? 448 / amax : 1;
            const double scale = given ? amax / 448 : 1;
            if (block_rows == 1) {
                scales(col / fp8_block, row) = scale;
            } else {
                scales(row / fp8_block, col / fp8_block) = scale;
            }
            for (std::int64_t r = row; r < row + block_rows; ++r) {
                for (std::int64_t c = col; c < end; ++c)
                    stored(r, c) = nearest(value(r, c) * factor, format);
            }
        }
    }
}

Array from_fp8_blocks(const Array& stored, const Array& scales, std::int64_t block_rows,
                      bool transpose) {
    const Shape shape = {stored.size(transpose ? 1 : 0), stored.size(transpose ? 0 : 1)};
    Array matrix(shape);
    for (std::int64_t row = 0; row < stored.size(0); ++row) {
        for (std::int64_t col = 0; col < stored.size(1); ++col) {
            const std::int64_t block = col / fp8_block;
            Bounded& factor = transpose ? matrix(col, row) : matrix(row, col);
            factor = stored(row, col) *
                     (block_rows == 1 ? scales(block, row) : scales(row / fp8_block, block));
            factor.bound += fp8_factor_roundoff * std::abs(factor.value);
        }
    }
    return matrix;
}

void to_int8(const Array& x, Array& values, Array& scales) {
    for (std::int64_t row = 0; row < x.size(0); ++row) {
        for (std::int64_t block = 0; block < scales.size(1); ++block) {
            const std::int64_t begin = block * Int8Matrix::block;
            const std::int64_t end = std::min(begin + Int8Matrix::block, x.size(1));
            // These steps are part of the contract, in fp32.
            float amax = 0;
            for (std::int64_t i = begin; i < end; ++i)
                amax = std::max(amax, std::abs(static_cast<float>(x(row, i).value)));
            const bool zero = amax < int8_smallest_amax;
            const float factor = zero ? 0 : 127 / amax;
            scales(row, block) = zero ? 0 : amax / 127;
            for (std::int64_t i = begin; i < end; ++i)
                values(row, i) = std::nearbyint(static_cast<float>(x(row, i).value) * factor);
        }
    }
}

Array from_int8(const Array& values, const Array& scales) {
    Array matrix(values.shape());
    for (std::int64_t row = 0; row < values.size(0); ++row) {
        for (std::int64_t i = 0; i < values.size(1); ++i)
            matrix(row, i) = values(row, i) * scales(row, i / Int8Matrix::block);
    }
    return matrix;
}

}  // namespace gptrain::reference
