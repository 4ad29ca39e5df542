// GEMMs of tiles with bf16 dot products (AVX512_BF16): twice the rate of fp32. An instruction adds
// two neighbouring products to each sum, so operands are packed as pairs.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "cpu/tile_kernels_impl.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {
namespace {

/// Two bf16 values: the first in the lower half.
using Pair = std::uint32_t;

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

/// Pairs of neighbouring elements of a row; 0 after `count` elements.
void pair_neighbours(const float* row, std::int64_t count, Pair* pairs, std::int64_t pair_count) {
    for (std::int64_t i = 0; i < pair_count; i += Vec16::size) {
        const std::int64_t left = count - 2 * i;
        const __m512 low = _mm512_maskz_loadu_ps(first_lanes(left), row + 2 * i);
        const __m512 high =
            _mm512_maskz_loadu_ps(first_lanes(left - Vec16::size), row + 2 * i + Vec16::size);
        _mm512_mask_storeu_epi32(pairs + i, first_lanes(pair_count - i),
                                 (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

/// Packs by rows if these are contiguous, else by pairs of columns.
TileOperand pack_left(const TileView& a, std::int64_t rows, std::int64_t length, float* memory) {
    auto* pairs = reinterpret_cast<Pair*>(memory);
    if (a.col == 1) {
        const std::int64_t stride = round_up(length, tile_unit) / 2;
        for (std::int64_t row = 0; row < rows; ++row)
            pair_neighbours(a.data + row * a.row, length, pairs + row * stride, stride);
        return {pairs, stride, 1};
    }
    const std::int64_t stride = round_up(rows, tile_unit);
    for (std::int64_t i = 0; i < length; i += 2) {
        const float* first = a.data + i * a.col;
        const float* second = i + 1 < length ? first + a.col : nullptr;
        pair_rows(first, second, rows, pairs + i / 2 * stride);
    }
    return {pairs, 1, stride};
}

__m256i bits_of(const Bf16* p, FullLanes<Vec16>) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
__m256i bits_of(const Bf16* p, PartLanes<Vec16> part) {
    Bf16 lanes[Vec16::size] = {};
    std::memcpy(lanes, p, static_cast<std::size_t>(part.count) * sizeof(Bf16));
    return bits_of(lanes, FullLanes<Vec16>());
}

/// Neighbouring elements are pairs already.
TileOperand pack_left_rows(const TileRows<Bf16>& rows, float* memory) {
    const std::int64_t stride = round_up(rows.dim, tile_unit) / 2;
    auto* to = reinterpret_cast<Pair*>(memory);
    for (std::int64_t i = 0; i < rows.count; ++i, to += stride) {
        const Bf16* row = rows.data + i * rows.stride;
        for_vectors_of<Vec16>(0, rows.dim, [&](std::int64_t d, auto lanes) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + d / 2), bits_of(row + d, lanes));
        });
    }
    return {memory, stride, 1};
}

TileOperand pack_right_rows(const TileRows<Bf16>& rows, float* memory) {
    const std::int64_t cols = round_up(rows.dim, tile_unit);
    auto* to = reinterpret_cast<Pair*>(memory);
    for (std::int64_t i = 0; i < rows.count; i += 2, to += cols) {
        const Bf16* first = rows.data + i * rows.stride;
        const Bf16* second = i + 1 < rows.count ? first + rows.stride : nullptr;
        for_vectors_of<Vec16>(0, rows.dim, [&](std::int64_t d, auto lanes) {
            __m512i pairs = _mm512_cvtepu16_epi32(bits_of(first + d, lanes));
            if (second != nullptr) {
                const __m512i upper = _mm512_cvtepu16_epi32(bits_of(second + d, lanes));
                pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(upper, 16));
            }
            _mm512_storeu_si512(to + d, pairs);
        });
    }
    return {memory, 0, cols};
}

struct PairTerms {
    using Vector = Vec16;
    using Element = Pair;
    using Elements = __m512bh;
    static constexpr int per_element = 2;
    static __m512bh load(const Pair* b) { return (__m512bh)_mm512_loadu_si512(b); }
    static __m512bh broadcast(Pair a) { return (__m512bh)_mm512_set1_epi32(static_cast<int>(a)); }
    static Vec16 add(__m512bh a, __m512bh b, Vec16 sum) { return _mm512_dpbf16_ps(sum.v, a, b); }
};

void multiply_pairs(const TileGemm& p) {
    multiply_columns<Product<PairTerms>, 6, 4>({p}, p.rows, p.cols);
}

}  // namespace

TileKernels avx512_bf16_tile_kernels() {
    return {.left = pack_left,
            .left_rows = pack_left_rows,
            .right_rows = pack_right_rows,
            .multiply = multiply_pairs,
            .change = change_scores<Vec16>,
            .softmax = softmax<Vec16>,
            .softmax_gradient = softmax_gradient<Vec16>};
}

}  // namespace gptrain::cpu
