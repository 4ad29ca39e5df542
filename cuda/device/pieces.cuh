// Rows of elements in pieces of 16 bytes, the largest access. Element e of a row is in piece e /
// width, whether or not the row is aligned to 16 bytes and ends with a whole piece; if not, pieces
// are read and written element by element. So the order of a sum does not depend on alignment.
#pragma once

#include <bit>
#include <type_traits>

#include "backend/buffer.h"
#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// Elements per piece.
template <class T>
constexpr int piece_width = 16 / static_cast<int>(sizeof(T));

/// True if element i of the piece at `at` is inside the row.
template <class T, bool aligned>
__device__ inline bool in_row(int at, int i, int size) {
    return aligned || at + i < size;
}

/// The 16 bytes from element `at` of a row of `size` elements on (`at` < `size`), zero-padded past
/// the end. `aligned`: the piece is whole and aligned to 16 bytes.
template <bool aligned, class T>
__device__ inline Vec16<T> load_piece(const T* row, int at, int size) {
    if constexpr (aligned) {
        return load(reinterpret_cast<const Vec16<T>*>(row + at));
    } else {
        Vec16<T> piece = {};
        for (int i = 0; i < piece_width<T>; ++i) {
            if (at + i < size) piece[i] = row[at + i];
        }
        return piece;
    }
}
/// For data read once.
template <bool aligned, class T>
__device__ inline Vec16<T> load_piece_once(const T* row, int at, int size) {
    if constexpr (aligned) {
        return load_once(reinterpret_cast<const Vec16<T>*>(row + at));
    } else {
        return load_piece<false>(row, at, size);
    }
}

template <bool aligned, class T>
__device__ inline void store_piece(T* row, int at, int size, const Vec16<T>& piece) {
    if constexpr (aligned) {
        store(reinterpret_cast<Vec16<T>*>(row + at), piece);
    } else {
        for (int i = 0; i < piece_width<T>; ++i) {
            if (at + i < size) row[at + i] = piece[i];
        }
    }
}
/// For data that is not read again soon.
template <bool aligned, class T>
__device__ inline void store_piece_once(T* row, int at, int size, const Vec16<T>& piece) {
    if constexpr (aligned) {
        store_once(reinterpret_cast<Vec16<T>*>(row + at), piece);
    } else {
        store_piece<false>(row, at, size, piece);
    }
}

/// Widens all elements to fp32, two per 32-bit word: extracting one half costs as much as widening
/// it.
template <class T>
__device__ inline void widen(const Vec16<T>& piece, float (&x)[piece_width<T>]) {
    if constexpr (sizeof(T) == 4) {
        for (int i = 0; i < piece_width<T>; ++i)
            x[i] = piece[i];
    } else {
        const auto words = std::bit_cast<Vec<std::uint32_t, 4>>(piece);
        for (int i = 0; i < 4; ++i) {
            if constexpr (std::is_same_v<T, Bf16>) {
                x[2 * i] = float_of(words[i] << 16);
                x[2 * i + 1] = float_of(words[i] & 0xffff0000u);
            } else {
                x[2 * i] = widen(F16{static_cast<std::uint16_t>(words[i])});
                x[2 * i + 1] = widen(F16{static_cast<std::uint16_t>(words[i] >> 16)});
            }
        }
    }
}
/// Rounds, two elements at a time: one two-element conversion is several times faster than two
/// single ones.
template <class T>
__device__ inline Vec16<T> narrow_piece(const float (&x)[piece_width<T>]) {
    if constexpr (sizeof(T) == 4) {
        Vec16<T> piece;
        for (int i = 0; i < piece_width<T>; ++i)
            piece[i] = x[i];
        return piece;
    } else {
        Vec<std::uint32_t, 4> words;
        for (int i = 0; i < 4; ++i)
            words[i] = narrow2<T>(x[2 * i], x[2 * i + 1]);
        return std::bit_cast<Vec16<T>>(words);
    }
}

/// True if rows of `size` elements, `stride` apart, consist of whole pieces aligned to 16 bytes.
/// True for null rows.
template <class T>
bool is_aligned(const T* rows, std::int64_t stride, std::int64_t size) {
    return rows == nullptr || (reinterpret_cast<std::uintptr_t>(rows) % 16 == 0 &&
                               stride % piece_width<T> == 0 && size % piece_width<T> == 0);
}

// ---- uniform work on all pieces of a matrix -----------------------------------------------------

/// A block handles the same pieces of several rows, one row after the other, with consecutive
/// pieces on consecutive threads.
constexpr int rows_per_block = 4;

struct PieceGrid {
    std::int64_t blocks;   ///< x: groups of rows
    int threads;           ///< at most 256
    std::int64_t columns;  ///< y: blocks across the columns
};

/// For rows of `size` elements in pieces of `width` elements; leaves as few threads idle as
/// possible.
inline PieceGrid piece_grid(std::int64_t rows, std::int64_t size, int width) {
    const std::int64_t pieces = div_ceil(size, width);
    const std::int64_t columns = div_ceil(pieces, 256);
    const auto threads = static_cast<int>(round_up(div_ceil(pieces, columns), warp_threads));
    return {div_ceil(rows, rows_per_block), threads, div_ceil(pieces, threads)};
}

/// Row i of the block, clamped to the last of `rows`. Clamping makes loads unconditional, so the
/// compiler can group several of them; stores still check.
__device__ inline std::int64_t block_row(int i, int rows) {
    const std::int64_t row = block_index().x * std::int64_t{rows_per_block} + i;
    return row < rows ? row : rows - 1;
}
__device__ inline bool is_block_row(int i, int rows) {
    return block_index().x * std::int64_t{rows_per_block} + i < rows;
}
/// First element of this thread's piece.
template <class T>
__device__ inline int thread_piece() {
    return (block_index().y * block_threads() + thread_index()) * piece_width<T>;
}

}  // namespace gptrain::cuda
