// The tile that a block converts to FP8, and its transposition in shared memory.
#pragma once

#include <cstdint>

#include "cuda/device/reduce.cuh"
#include "cuda/ops/scratch_sizes.h"

namespace gptrain::cuda {

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

template <class T>
__device__ inline void load_chunk(const T* x, float (&values)[chunk]) {
    constexpr int width = 16 / static_cast<int>(sizeof(T));
    Vec16<T> parts[chunk / width];
    for (int i = 0; i < chunk / width; ++i)
        parts[i] = load(reinterpret_cast<const Vec16<T>*>(x) + i);
    for (int i = 0; i < chunk; ++i)
        values[i] = widen(parts[i / width][i % width]);
}

template <class Fp8>
__device__ inline Vec<std::uint32_t, 4> converted(const float (&x)[chunk], float factor) {
    Vec<std::uint32_t, 4> result;
    for (int i = 0; i < 4; ++i) {
        result[i] = narrow2_fp8<Fp8>(x[4 * i] * factor, x[4 * i + 1] * factor) |
                    narrow2_fp8<Fp8>(x[4 * i + 2] * factor, x[4 * i + 3] * factor) << 16;
    }
    return result;
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
