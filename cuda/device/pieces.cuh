// Rows of elements in pieces of 16 bytes, the largest access there is. Element e of a row is in
// piece e / width whether or not the row lies on 16-byte boundaries and ends with a whole piece:
// where it does not, pieces are read and written element by element. So the order of a sum does
// not depend on where its terms lie.
#pragma once

#include <bit>
#include <type_traits>

#include "backend/buffer.h"
#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// Elements of a piece.
template <class T>
constexpr int piece_width = 16 / static_cast<int>(sizeof(T));

/// Whether element i of the piece at `at` is one of the row.
template <class T, bool aligned>
__device__ inline bool is_there(int at, int i, int size) {
    return aligned || at + i < size;
}

/// The piece at element `at` of a row of `size` > at elements; zeros behind its end. `aligned`: all
/// of it is there, on a 16-byte boundary.
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
/// For what is read once.
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
/// For what is not read again soon.
template <bool aligned, class T>
__device__ inline void store_piece_once(T* row, int at, int size, const Vec16<T>& piece) {
    if constexpr (aligned) {
        store_once(reinterpret_cast<Vec16<T>*>(row + at), piece);
    } else {
        store_piece<false>(row, at, size, piece);
    }
}

/// All elements in fp32. By words of two: taking a half out of one costs as much as widening it.
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
/// Rounded. By twos: the conversion of one is several times slower than that of two.
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

/// Whether rows of `size` elements, `stride` apart, consist of whole pieces on 16-byte boundaries.
/// A row that is not given does.
template <class T>
bool whole_pieces(const T* rows, std::int64_t stride, std::int64_t size) {
    return rows == nullptr || (reinterpret_cast<std::uintptr_t>(rows) % 16 == 0 &&
                               stride % piece_width<T> == 0 && size % piece_width<T> == 0);
}

// ---- work that is the same for all pieces of a matrix -------------------------------------------

/// A block does the same pieces of some rows, one after the other; its threads side by side.
constexpr int rows_of_block = 4;

struct PieceGrid {
    std::int64_t blocks;   ///< x: of rows
    int threads;           ///< at most 256
    std::int64_t columns;  ///< y: blocks side by side
};

/// For rows of `size` elements of which a piece holds `width`; as few threads as possible idle.
inline PieceGrid piece_grid(std::int64_t rows, std::int64_t size, int width) {
    const std::int64_t pieces = div_ceil(size, width);
    const std::int64_t columns = div_ceil(pieces, 256);
    const auto threads = static_cast<int>(round_up(div_ceil(pieces, columns), warp_threads));
    return {div_ceil(rows, rows_of_block), threads, div_ceil(pieces, threads)};
}

/// Row i of the block, of `rows` in all. Behind the last one there is the last one again, so that
/// loads need no condition, between which the compiler would not put several of them; stores do.
__device__ inline std::int64_t row_of_block(int i, int rows) {
    const std::int64_t row = block_index().x * std::int64_t{rows_of_block} + i;
    return row < rows ? row : rows - 1;
}
__device__ inline bool is_row_of_block(int i, int rows) {
    return block_index().x * std::int64_t{rows_of_block} + i < rows;
}
/// Element at which this thread's piece begins.
template <class T>
__device__ inline int piece_of_thread() {
    return (block_index().y * block_threads() + thread_index()) * piece_width<T>;
}

}  // namespace gptrain::cuda
