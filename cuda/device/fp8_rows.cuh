// Rows in FP8 with scales for blocks of 1 x 128 (ToFp8Rows): the scale of a block, and how a kernel
// writes such rows beside its output or in place of it.
#pragma once

#include <type_traits>

#include "backend/value_ops.h"
#include "cuda/device/pieces.cuh"

namespace gptrain::cuda {

/// The factor of a block's values, and that of the results later.
struct BlockScale {
    float factor;
    float scale;
};

__device__ inline BlockScale block_scale(float amax) {
    const bool given = amax >= fp8_smallest_amax;
    return {.factor = given ? F8E4M3::largest / amax : 1.0f,
            .scale = given ? amax / F8E4M3::largest : 1.0f};
}

/// Eight values times the factor of their block.
__device__ inline Vec<std::uint32_t, 2> converted_by(float factor, const float (&x)[8]) {
    Vec<std::uint32_t, 2> words;
    for (int i = 0; i < 2; ++i) {
        const float* of_word = x + 4 * i;
        words[i] = narrow2_fp8<F8E4M3>(of_word[0] * factor, of_word[1] * factor) |
                   narrow2_fp8<F8E4M3>(of_word[2] * factor, of_word[3] * factor) << 16;
    }
    return words;
}

/// A kernel's second result, made of its output.
enum class Beside { nothing, amax, fp8_rows };

struct Fp8Rows {
    F8E4M3* stored = nullptr;  ///< [rows, cols]
    float* scales = nullptr;   ///< [cols / 128][rows]
    int rows = 0;
    int cols = 0;

    Fp8Rows() = default;
    explicit Fp8Rows(const Fp8Matrix& matrix) {
        if (matrix.empty()) return;
        const Shape& shape = matrix.rowwise.shape();
        GPTRAIN_CHECK(matrix.scale.shape() == fp8_row_scales(shape[0], shape[1]) &&
                          reinterpret_cast<std::uintptr_t>(matrix.rowwise.data()) % 16 == 0,
                      "rows of ", shape.to_text(), " with scales of ",
                      matrix.scale.shape().to_text());
        stored = matrix.rowwise.as<F8E4M3>();
        scales = matrix.scale.as<float>();
        rows = static_cast<int>(shape[0]);
        cols = static_cast<int>(shape[1]);
    }

    /// Writes the piece at element `at` of a row. The lanes of a warp, all of which call it, have
    /// consecutive pieces, the first at the beginning of a block. Those behind the end of the row
    /// are not `inside`.
    template <class T>
    __device__ void store_piece(std::int64_t row, int at, bool inside,
                                const Vec16<T>& piece) const {
        constexpr int width = piece_width<T>;
        constexpr int lanes_of_block = fp8_block / width;
        static_assert(width == 8 && lanes_of_block <= warp_threads);
        float x[width];
        widen(piece, x);
        float amax = 0;
        for (const float element : x)
            amax = maximum(amax, absolute(element));
        for (int mask = lanes_of_block / 2; mask > 0; mask /= 2)
            amax = maximum(amax, shuffle_xor(amax, mask));
        if (!inside) return;
        const BlockScale block = block_scale(amax);
        store(reinterpret_cast<Vec<std::uint32_t, 2>*>(stored + row * cols + at),
              converted_by(block.factor, x));
        if (at % fp8_block == 0) store_scale(row, at, block);
    }
    /// Of the block that begins at element `at` of a row.
    __device__ void store_scale(std::int64_t row, int at, const BlockScale& block) const {
        scales[std::int64_t{at / static_cast<int>(fp8_block)} * rows + row] = block.scale;
    }
};

/// Calls f with the second result that an op asks for, as a compile-time constant.
template <class T, class F>
auto with_beside(const Fp8Rows& rows, const float* amax, bool aligned, const F& f) {
    if (rows.rows > 0) {
        GPTRAIN_CHECK((std::is_same_v<T, Bf16> && aligned),
                      "FP8 beside an output that is not bf16, or not aligned");
        if constexpr (std::is_same_v<T, Bf16>)
            return f(std::integral_constant<Beside, Beside::fp8_rows>());
    }
    if (amax != nullptr) return f(std::integral_constant<Beside, Beside::amax>());
    return f(std::integral_constant<Beside, Beside::nothing>());
}

}  // namespace gptrain::cuda
