// The parts that the forward and backward attention kernels on sm_90a share: the warp roles in a
// block, tiles in shared memory, and register layouts of matrix multiplies.
//
// A block is three warpgroups: one loads and stores, two compute. A tile consists of panels of 64
// columns (one box of a bulk copy each); rows of a tile are tokens of one head.
#pragma once

#include <limits>

#include "cuda/attention/mask.cuh"
#include "cuda/attention/sm90/plan.h"
#include "cuda/attention/tiles.cuh"
#include "cuda/device/fp8_rows.cuh"
#include "cuda/device/pipeline.cuh"
#include "cuda/device/reduce.cuh"

namespace gptrain::cuda::sm90 {

constexpr float infinity = std::numeric_limits<float>::infinity();
static_assert(row_bytes == 2 * panel_columns);
constexpr int threads_of_block = (1 + computing_groups) * group_threads;

/// Variants of a kernel: plain, with dropout, finding the amax of its results, or writing them in
/// FP8 too (forward with D = fp8_block). Backward has no registers for dropout and amax.
enum class Variant { plain, dropout, amax, rows8 };

/// `amax` may be null.
inline Variant variant_of(const AttentionParams& p, const float* amax) {
    if (p.dropout.on()) return Variant::dropout;
    return amax == nullptr ? Variant::plain : Variant::amax;
}

template <class Kernel>
Kernel* kernel_of(Variant variant, Kernel* plain, Kernel* dropout, Kernel* amax) {
    if (variant == Variant::plain) return plain;
    return variant == Variant::dropout ? dropout : amax;
}

/// A bf16 tile that bulk copies fill.
template <int rows_, int width_>
using Tile = SharedTile<rows_, width_>;

/// Loads all panels of a tile whose map has boxes of Tile::rows rows. Called by one thread.
template <class Tile>
__device__ inline void load_tile(Tile& tile, const TensorMap& map, int head, int row, int sequence,
                                 Barrier& barrier) {
    for (int i = 0; i < Tile::panels; ++i) {
        load_box(tile.bytes + i * Tile::panel_bytes, map, {i * panel_columns, head, row, sequence},
                 barrier);
    }
}

// ---- operands of matrix multiplies --------------------------------------------------------------

/// Rows of the tile from `row` (a multiple of 8) on, as rows or columns of a matrix multiply that
/// reduces over features. Shared by all its steps, each of which takes the next 16 features.
template <class Tile>
class Rows {
public:
    __device__ Rows(const Tile& tile, int row)
        : first_(k_major(shared_address(tile.bytes + row * row_bytes))) {}
    __device__ Operand<Major::k> features(int k) const {
        return first_.later(k / panel_columns * Tile::panel_bytes + k % panel_columns * 2);
    }

private:
    Operand<Major::k> first_;
};
/// Features of the tile from `column` (a multiple of 64) on, as columns of a matrix multiply that
/// reduces over rows. Shared by all its steps, each of which takes the next 16 rows.
template <class Tile>
class Features {
public:
    __device__ Features(const Tile& tile, int column)
        : first_(mn_major(shared_address(tile.bytes + column / panel_columns * Tile::panel_bytes),
                          Tile::panel_bytes)) {}
    __device__ Operand<Major::mn> rows(int k) const { return first_.later(k * row_bytes); }

private:
    Operand<Major::mn> first_;
};

/// c[64 x 64 or 128] = a b^T: 64 rows of tile a times rows of tile b, reduced over features.
template <int n, class A, class B>
__device__ inline void multiply_transposed(float (&c)[n], const A& a, int a_row, const B& b,
                                           int b_row) {
    static_assert(A::width == B::width);
    const Rows left(a, a_row);
    const Rows right(b, b_row);
    warpgroup_fence();
    unrolled<A::width / 16>([&](int k) {
        warpgroup_multiply(c, left.features(16 * k), right.features(16 * k), k > 0);
    });
    warpgroup_commit();
}

/// The rounded registers of one matrix multiply as operand a of the next: 16 columns per piece.
template <int pieces>
using Pieces = std::uint32_t[pieces][4];

template <int n>
__device__ inline void narrow_pieces(Pieces<n / 8>& pieces, const float (&c)[n]) {
    unrolled<n / 2>([&](int i) { pieces[i / 4][i % 4] = narrow2<Bf16>(c[2 * i], c[2 * i + 1]); });
}

/// sum += pieces b: pieces times the rows of tile b from `row` on.
template <int n, int pieces, class B>
__device__ inline void multiply_accumulate(float (&sum)[n], const Pieces<pieces>& a, const B& b,
                                           int row) {
    const Features right(b, 0);
    warpgroup_fence();
    unrolled<pieces>([&](int k) { warpgroup_multiply(sum, a[k], right.rows(row + 16 * k), true); });
    warpgroup_commit();
}

// ---- registers to shared memory -----------------------------------------------------------------

/// Stores this warp's 16 of the group's 64 rows of c, multiplied by the factors (of rows lane / 4
/// and lane / 4 + 8) and rounded, into panels `panel_bytes` apart, in the layout for bulk copies.
template <int n>
__device__ inline void store_rounded(std::byte* panels, int panel_bytes, const float (&c)[n],
                                     float factor0, float factor1) {
    const int row = warp_index() % group_warps * 16 + lane_index() % 16;
    const int begin = row * row_bytes;
    const int turn = row % 8 * 16;
    unrolled<n / 8>([&](int k) {
        std::uint32_t piece[4];
        unrolled<4>([&](int i) {
            const float factor = i % 2 == 0 ? factor0 : factor1;
            piece[i] = narrow2<Bf16>(c[8 * k + 2 * i] * factor, c[8 * k + 2 * i + 1] * factor);
        });
        const int column = (k % 4 * 32 + lane_index() / 16 * 16) ^ turn;
        store_tiles(panels + k / 4 * panel_bytes + begin + column, piece);
    });
}

/// Adds the magnitudes that store_rounded makes of these rows to *amax, but for rows that are not
/// among the `count` of the head; `first` is the first of this warp's rows.
template <int n>
__device__ inline void update_amax(float* amax, int first, int count, const float (&c)[n],
                                   const float (&factors)[2]) {
    float found = 0;
    unrolled<2>([&](int h) {
        float largest = 0;
        unrolled<n / 2>(
            [&](int i) { largest = maximum(largest, absolute(c[i / 2 * 4 + 2 * h + i % 2])); });
        // Multiplication and rounding keep the order.
        const int row = first + lane_index() / 4 + 8 * h;
        const float rounded = widen(narrow<Bf16>(largest * factors[h]));
        if (row < count) found = maximum(found, rounded);
    });
    found = warp_maximum(found);
    if (lane_index() == 0) atomic_max_not_negative(amax, found);
}

/// Writes this warp's 16 rows of a tile from `first` on in FP8, as store_rounded left them, to rows
/// of `out` from `row` on, but for those that are not among the `count` of the head. A row of the
/// tile is a block of a row of `out`. All lanes have read the tile when it returns.
template <class Tile>
__device__ inline void store_rows8(const Fp8Rows& out, const Tile& tile, int first,
                                   std::int64_t row, int column, int count) {
    static_assert(Tile::width == fp8_block);
    // Two lanes have a row and take 16 elements in turn.
    const int own = lane_index() / 2;
    const int half = lane_index() % 2;
    const int turn = (first + own) % 8 * 16;
    const std::byte* from = tile.bytes + (first + own) * row_bytes;
    Vec16<Bf16> pieces[8];
    float tops[4] = {};
    unrolled<8>([&](int i) {
        const int column_bytes = (i / 2 % 2 * 64 + half * 32 + i % 2 * 16) ^ turn;
        pieces[i] = load(
            reinterpret_cast<const Vec16<Bf16>*>(from + i / 4 * Tile::panel_bytes + column_bytes));
        unrolled<8>(
            [&](int j) { tops[j % 4] = maximum(tops[j % 4], absolute(widen(pieces[i][j]))); });
    });
    warp_barrier();
    float amax = maximum(maximum(tops[0], tops[1]), maximum(tops[2], tops[3]));
    amax = maximum(amax, shuffle_xor(amax, 1));
    if (own >= count) return;
    const BlockScale block = block_scale(amax);
    if (half == 0) out.store_scale(row + own, column, block);
    F8E4M3* to = out.stored + (row + own) * out.cols + column + half * 16;
    unrolled<4>([&](int i) {
        float x[8];
        Vec<std::uint32_t, 4> words;
        unrolled<2>([&](int j) {
            widen(pieces[2 * i + j], x);
            const Vec<std::uint32_t, 2> two = converted_by(block.factor, x);
            words[2 * j] = two[0];
            words[2 * j + 1] = two[1];
        });
        store(reinterpret_cast<Vec<std::uint32_t, 4>*>(to + 32 * i), words);
    });
}

/// Adds low and high to two adjacent fp32 elements.
__device__ inline void add_pair(float* to, float low, float high) {
    auto* pair = reinterpret_cast<Vec<float, 2>*>(to);
    Vec<float, 2> x = load(pair);
    x[0] += low;
    x[1] += high;
    store(pair, x);
}

// ---- masks --------------------------------------------------------------------------------------

/// True if a pair of tiles needs masking.
__device__ inline bool needs_mask(const KeyRange& range, int key) {
    return key < range.all_begin || key + key_rows > range.all_end;
}

/// The tiles of keys that queries visit, both included.
struct TileRange {
    int first;
    int last;
};

/// If no key is visible, the first tile is still visited: it produces the zeros.
__device__ inline TileRange tiles_of(const KeyRange& range, int origin) {
    if (range.begin >= range.end) return {0, 0};
    return {(range.begin - origin) / key_rows, (range.end - 1 - origin) / key_rows};
}

}  // namespace gptrain::cuda::sm90
