// GEMMs of tiles with bf16 dot products (AVX512_BF16): twice the rate of fp32. An instruction adds
// two neighbouring products to each sum, so a and b are packed as pairs first.
#include <algorithm>

#include "base/checked.h"
#include "cpu/tile_kernels_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {
namespace {

/// Two bf16 values: the first in the lower half.
using Pair = std::uint32_t;
constexpr std::int64_t tile_pairs = tile_size / 2;

__mmask16 first_lanes(std::int64_t count) {
    return static_cast<__mmask16>((1U << std::clamp<std::int64_t>(count, 0, Vec16::size)) - 1);
}

/// Pairs of the elements of two rows.
void pair_rows(const float* first, const float* second, std::int64_t count, Pair* pairs) {
    for (std::int64_t i = 0; i < count; i += Vec16::size) {
        const __mmask16 lanes = first_lanes(count - i);
        const auto bits = [&](const float* row) {
            const __m512 values =
                row == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, row + i);
            return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(values));
        };
        const __m512i upper = _mm512_slli_epi32(bits(second), 16);
        _mm512_storeu_si512(pairs + i, _mm512_or_si512(bits(first), upper));
    }
}

/// Pairs of neighbouring elements of a row.
void pair_neighbours(const float* row, std::int64_t count, Pair* pairs) {
    for (std::int64_t i = 0; i < count; i += 2 * Vec16::size) {
        const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count - i), row + i);
        const __m512 high =
            _mm512_maskz_loadu_ps(first_lanes(count - i - Vec16::size), row + i + Vec16::size);
        _mm512_storeu_si512(pairs + i / 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

/// A GEMM of packed tiles.
struct PairProduct {
    using Vector = Vec16;
    const Pair* a;
    std::int64_t a_row;
    std::int64_t a_pair;
    const Pair* b;  ///< [pairs][tile_size]
    std::int64_t pairs;
    float* c;
    std::int64_t c_row;
    bool accumulate;
    float scale;

    template <int R, int C>
    void block(std::int64_t row, std::int64_t col) const {
        __m512 sums[R][C];
        float* to = c + row * c_row + col;
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < C; ++v) {
                sums[r][v] = accumulate ? _mm512_loadu_ps(to + r * c_row + v * Vec16::size)
                                        : _mm512_setzero_ps();
            }
        }
        const Pair* left = a + row * a_row;
        const Pair* right = b + col;
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
            __m512bh columns[C];
            for (int v = 0; v < C; ++v)
                columns[v] = (__m512bh)_mm512_loadu_si512(right + v * Vec16::size);
            for (int r = 0; r < R; ++r) {
                const auto same = (__m512bh)_mm512_set1_epi32(static_cast<int>(left[r * a_row]));
                for (int v = 0; v < C; ++v)
                    sums[r][v] = _mm512_dpbf16_ps(sums[r][v], same, columns[v]);
            }
            left += a_pair;
            right += tile_size;
        }
        const __m512 factor = _mm512_set1_ps(scale);
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < C; ++v) {
                _mm512_storeu_ps(to + r * c_row + v * Vec16::size,
                                 _mm512_mul_ps(sums[r][v], factor));
            }
        }
    }
};

/// Packs columns [begin, begin + count) of a: by rows if these are contiguous, else by pairs of
/// columns.
void pack_left(const TileGemm& p, std::int64_t begin, std::int64_t count, PairProduct& product,
               Pair* packed) {
    product.a = packed;
    if (p.a_col == 1) {
        for (std::int64_t row = 0; row < p.rows; ++row)
            pair_neighbours(p.a + row * p.a_row + begin, count, packed + row * tile_pairs);
        product.a_row = tile_pairs;
        product.a_pair = 1;
    } else {
        for (std::int64_t i = 0; i < count; i += 2) {
            const float* first = p.a + (begin + i) * p.a_col;
            const float* second = i + 1 < count ? first + p.a_col : nullptr;
            pair_rows(first, second, p.rows, packed + i / 2 * tile_size);
        }
        product.a_row = 1;
        product.a_pair = tile_size;
    }
}

/// Packs rows [begin, begin + count) and columns [col, col + cols) of b.
void pack_right(const TileGemm& p, std::int64_t begin, std::int64_t count, std::int64_t col,
                std::int64_t cols, PairProduct& product, Pair* packed) {
    for (std::int64_t i = 0; i < count; i += 2) {
        const float* first = p.b + (begin + i) * p.b_row + col;
        const float* second = i + 1 < count ? first + p.b_row : nullptr;
        pair_rows(first, second, cols, packed + i / 2 * tile_size);
    }
    product.b = packed;
    product.pairs = div_ceil(count, 2);
}

void multiply_pairs(const TileGemm& p) {
    alignas(64) Pair left[tile_pairs * tile_size];
    alignas(64) Pair right[tile_pairs * tile_size];
    for (std::int64_t begin = 0; begin < p.length; begin += tile_size) {
        const std::int64_t count = std::min(tile_size, p.length - begin);
        PairProduct product{};
        pack_left(p, begin, count, product, left);
        product.c_row = p.c_row;
        product.accumulate = p.accumulate || begin > 0;
        product.scale = begin + count == p.length ? p.scale : 1;
        for (std::int64_t col = 0; col < p.cols; col += tile_size) {
            const std::int64_t cols = std::min(tile_size, p.cols - col);
            pack_right(p, begin, count, col, cols, product, right);
            product.c = p.c + col;
            multiply_columns<PairProduct, 6, 4>(product, p.rows, cols);
        }
    }
}

}  // namespace

TileKernels avx512_bf16_tile_kernels() {
    return {multiply_pairs, softmax<Vec16>, softmax_gradient<Vec16>};
}

}  // namespace gptrain::cpu
