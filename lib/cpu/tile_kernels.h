// The arithmetic of attention on a pair of tiles. Compiled for AVX2, for AVX-512, and for AVX-512
// with bf16 dot products.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace gptrain::cpu {

/// Number of queries and of keys in a tile.
constexpr std::int64_t tile_size = 64;
/// Column counts are multiples of this.
constexpr std::int64_t tile_unit = 16;

/// `count` rows of `dim` elements of a tensor, `stride` apart.
template <class T>
struct TileRows {
    const T* data;
    std::int64_t stride;
    std::int64_t count;
    std::int64_t dim;
};

/// An fp32 tile: element (i, j) is data[i row + j col], where row or col is 1.
struct TileView {
    const float* data;
    std::int64_t row;
    std::int64_t col;
};

/// An operand of GEMMs as the kernels that made it read it.
struct TileOperand {
    const void* data;
    std::int64_t row;   ///< distance of the rows of a left operand
    std::int64_t term;  ///< distance of the terms of the sums
};

/// c = scale a b, or c += a b, where a is a left operand [rows][length], b a right operand
/// [length][cols]. Rows of c are c_row floats apart; `rows` is at most tile_size, `cols` a multiple
/// of tile_unit.
struct TileGemm {
    TileOperand a;
    TileOperand b;
    float* c;
    std::int64_t c_row;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t length;
    bool accumulate;
    float scale = 1;  ///< 1 if `accumulate`
};

/// Scores [keys][tile_size] of a pair of tiles: one row for each key, one column for each query.
struct ScoreTile {
    float* scores;
    std::int64_t keys;
    std::int64_t queries;  ///< multiple of tile_unit
    /// Query i sees the tile's keys first[i] to last[i]. Null: every query sees every key.
    const float* first;
    const float* last;
    const float* dropout;  ///< factors with the layout of scores, or null
};

/// The change of scaled products s before the softmax: with `softcap` c, s = c tanh(s / c); then
/// s -= slope (distance + query - key), where query and key count in their tiles.
struct ScoreChange {
    float softcap;   ///< 0: none
    float slope;     ///< 0: none
    float distance;  ///< of the first query from the first key
    /// Layout of scores, =: the slope of the changed score in s; or null.
    float* slopes;
};

/// Running softmax of the queries. With m the maximum over all keys so far, this tile included:
/// scores = exp(scores - m) dropout, sum = sum rescale + sum of exp(scores - m), rescale =
/// exp(maximum before - m), maximum = m. If nothing is visible yet, 0 replaces m.
struct SoftmaxState {
    float* maximum;
    float* sum;
    float* rescale;
};

/// p = exp(scores - lse); d_scores = p (dp dropout - delta); scores = p dropout.
struct SoftmaxGradient {
    const float* lse;  ///< of each query; +infinity if nothing is visible
    const float* delta;
    float* dp;  ///< layout of scores; dp in, d_scores out
};

/// Sums are fp32. Kernels with bf16 dot products pack operands, rounded to bf16, into memory for
/// half a tile whose sizes are rounded up to tile_unit; in the others, an operand is an fp32 tile
/// itself.
struct TileKernels {
    /// Left operand [rows][length], packed into `memory`.
    TileOperand (*left)(const TileView& a, std::int64_t rows, std::int64_t length, float* memory);
    /// Left and right operand [count][dim], packed into `memory`, the dim padded with 0 to a
    /// multiple of tile_unit. Null where operands are not packed.
    TileOperand (*left_rows)(const TileRows<Bf16>& rows, float* memory);
    TileOperand (*right_rows)(const TileRows<Bf16>& rows, float* memory);
    void (*multiply)(const TileGemm& product);
    /// Changes the tile's scores, of all keys, seen or not.
    void (*change)(const ScoreTile& tile, const ScoreChange& change);
    void (*softmax)(const ScoreTile& tile, const SoftmaxState& state);
    void (*softmax_gradient)(const ScoreTile& tile, const SoftmaxGradient& gradient);
};

TileKernels avx2_tile_kernels();
TileKernels avx512_tile_kernels();
TileKernels avx512_bf16_tile_kernels();
/// The fastest kernels that this CPU supports for tensors of this dtype.
TileKernels tile_kernels(DType compute);

}  // namespace gptrain::cpu
