// The tile that a block converts to FP8, and its transposition in shared memory.
#pragma once

#include <cstdint>

#include "cuda/device/reduce.cuh"
#include "cuda/ops/scratch_sizes.h"

namespace gptrain::cuda {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;

/// Elements that a thread converts at a time: 16 bytes of the result.
constexpr int chunk = 16;
/// A block handles a square tile. Its rows in shared memory are padded by a word, so that a column
/// uses different banks.
constexpr int tile = fp8_tile;
constexpr int tile_stride = tile + 4;
constexpr int chunks_of_row = tile / chunk;

struct ConvertTile {
    alignas(16) std::uint32_t words[tile * tile_stride / 4];
};

/// A thread's chunks are all in the same columns.
static_assert(tile == block_warps * chunk && tile == warp_threads * 4);
static_assert(block_size % chunks_of_row == 0 && warp_threads % chunks_of_row == 0);

/// For each warp, a value of its rows of each column of the tile.
struct WarpColumns {
    alignas(16) float of[block_warps][tile];
};

/// Combines the values of two lanes, of which each keeps a half: the second one where its lane has
/// the bit.
template <int count, class Combine>
__device__ inline void combine_half(const float (&x)[count], int lane_bit, const Combine& combine,
                                    float (&half)[count / 2]) {
    const bool second = (lane_index() & lane_bit) != 0;
    for (int i = 0; i < count / 2; ++i) {
        const float kept = second ? x[count / 2 + i] : x[i];
        const float given = second ? x[i] : x[count / 2 + i];
        half[i] = combine(kept, shuffle_xor(given, lane_bit));
    }
}

/// Combines the values of the four lanes that have the same columns. Each of them stores four.
template <class Combine>
__device__ inline void store_of_warp(const float (&of_thread)[chunk], const Combine& combine,
                                     WarpColumns& columns) {
    static_assert(4 * chunks_of_row == warp_threads);
    float half[chunk / 2];
    float quarter[chunk / 4];
    combine_half(of_thread, chunks_of_row, combine, half);
    combine_half(half, 2 * chunks_of_row, combine, quarter);
    const int lane = lane_index();
    const int column = lane % chunks_of_row * chunk + lane / chunks_of_row % 2 * (chunk / 2) +
                       lane / (2 * chunks_of_row) * (chunk / 4);
    store(reinterpret_cast<Vec<float, 4>*>(columns.of[warp_index()] + column),
          Vec<float, 4>{quarter[0], quarter[1], quarter[2], quarter[3]});
}

/// The sum of one thread's chunks; free if not `wanted`.
template <bool wanted>
class ChunkSum {
public:
    __device__ void add(const float (&x)[chunk]) {
        if constexpr (wanted) {
            for (int i = 0; i < chunk; ++i)
                sum_[i] = sum_[i] + x[i];
        }
    }

    __device__ void store(WarpColumns& sums) const {
        store_of_warp(
            sum_, [](float a, float b) { return a + b; }, sums);
    }

private:
    float sum_[wanted ? chunk : 1] = {};
};

/// Writes the sum of the rows of the tile to `to` [tiles of rows][cols]. For a block whose tile is
/// in row block_index().x of tiles.
__device__ inline void store_sums(float* to, std::int64_t cols, const WarpColumns& sums,
                                  std::int64_t first_col) {
    const int col = thread_index();
    if (col >= tile || first_col + col >= cols) return;
    to[std::int64_t{block_index().x} * cols + first_col + col] = column_sum(sums.of, col);
}

template <class T>
__device__ inline void load_chunk(const T* x, float (&values)[chunk]) {
    constexpr int width = 16 / static_cast<int>(sizeof(T));
    Vec16<T> parts[chunk / width];
    for (int i = 0; i < chunk / width; ++i)
        parts[i] = load(reinterpret_cast<const Vec16<T>*>(x) + i);
    for (int i = 0; i < chunk; ++i)
        values[i] = widen(parts[i / width][i % width]);
}

/// In FP8, each value times `factor` of its place.
template <class Fp8, class Factor>
__device__ inline Vec<std::uint32_t, 4> converted(const float (&x)[chunk], const Factor& factor) {
    const auto at = [&](int i) { return x[i] * factor(i); };
    Vec<std::uint32_t, 4> result;
    for (int i = 0; i < 4; ++i) {
        result[i] = narrow2_fp8<Fp8>(at(4 * i), at(4 * i + 1)) |
                    narrow2_fp8<Fp8>(at(4 * i + 2), at(4 * i + 3)) << 16;
    }
    return result;
}
template <class Fp8>
__device__ inline Vec<std::uint32_t, 4> converted(const float (&x)[chunk], float factor) {
    return converted<Fp8>(x, [=](int /*place*/) { return factor; });
}

/// Byte `col` of each of the four words.
__device__ inline std::uint32_t column_of(const std::uint32_t (&rows)[4], int col) {
    std::uint32_t result = 0;
    for (int row = 0; row < 4; ++row)
        result |= (rows[row] >> (8 * col) & 0xff) << (8 * row);
    return result;
}

/// Writes the columns of the tile: a thread transposes 16 rows of four columns. `to` is [cols,
/// rows].
template <class Fp8>
__device__ inline void store_columns(Fp8* to, std::int64_t rows_of_all, std::int64_t cols_of_all,
                                     const ConvertTile& shared, std::int64_t first_row,
                                     std::int64_t first_col) {
    const int row = warp_index() * chunk;
    const int col = lane_index() * 4;
    if (first_row + row >= rows_of_all || first_col + col >= cols_of_all) return;
    Vec<std::uint32_t, 4> columns[4];
    for (int quarter = 0; quarter < 4; ++quarter) {
        std::uint32_t rows[4];
        for (int i = 0; i < 4; ++i) {
            rows[i] = shared.words[((row + 4 * quarter + i) * tile_stride + col) / 4];
        }
        for (int i = 0; i < 4; ++i)
            columns[i][quarter] = column_of(rows, i);
    }
    for (int i = 0; i < 4; ++i) {
        Fp8* at = to + (first_col + col + i) * rows_of_all + first_row + row;
        store(reinterpret_cast<Vec<std::uint32_t, 4>*>(at), columns[i]);
    }
}

}  // namespace gptrain::cuda
