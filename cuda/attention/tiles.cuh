// Tiles of 16-bit elements in shared memory, and the two matrix multiplies of attention: rows times
// rows (scores, and their gradients), and registers times rows (sums over the other side). Rows of
// a tile are tokens of one head, columns are features.
#pragma once

#include "cuda/attention/mask.cuh"

namespace gptrain::cuda {

/// Panels of 64 columns (128 bytes), each with all rows, swizzled as by swizzle_128: eight rows of
/// a column use all banks.
template <int tile_rows, int tile_width>
struct alignas(1024) SharedTile {
    static constexpr int rows = tile_rows;
    static constexpr int width = tile_width;
    static constexpr int panel_bytes = rows * 128;
    static constexpr int panels = (width + 63) / 64;
    static_assert(rows % 8 == 0 && width % 16 == 0);

    std::byte bytes[panels * panel_bytes];

    __device__ std::byte* at(int row, int column) {
        return bytes + column / 64 * panel_bytes + swizzle_128(row * 128 + column % 64 * 2);
    }
    /// This lane's address in the piece of 16 x 16 elements at (row, column), multiples of 8 and
    /// 16; `lane` is the lane's offset in the piece at (0, 0). (Swizzling is an exclusive or, so
    /// the column's bits can be applied afterwards.)
    __device__ const std::byte* piece(int lane, int row, int column) const {
        return bytes + column / 64 * panel_bytes + row * 128 + (lane ^ (column % 64 * 2));
    }
};

/// This lane's offset in the piece of 16 x 16 elements at (0, 0), such that load_tiles loads an
/// operand a (16 rows by 16 reduced columns). Loaded the same way, two operands b, one below the
/// other (8 rows by 16 reduced columns each), are registers 0, 2 and 1, 3. Loaded transposed, two
/// operands b next to each other (16 reduced rows by 8 columns each) are registers 0, 1 and 2, 3.
__device__ inline int piece_offset() {
    return swizzle_128(lane_index() % 16 * 128 + lane_index() / 16 * 16);
}

/// Rows of one head of a tensor [B, rows, heads, D].
struct HeadRows {
    const std::byte* data;   ///< row 0
    std::int64_t row_bytes;  ///< distance between rows
    int rows;
    int dim_bytes;  ///< bytes of a row; a multiple of 16

    /// The same rows, `elements` elements of T further on.
    template <class T>
    __device__ HeadRows after(std::int64_t elements) const {
        return {data + elements * static_cast<int>(sizeof(T)), row_bytes, rows, dim_bytes};
    }
};
template <class T>
__device__ inline HeadRows head_rows(const HeadTensor& tensor, int sequence, int head, int rows,
                                     int dim) {
    constexpr int size = sizeof(T);
    return {reinterpret_cast<const std::byte*>(tensor.head<T>(sequence, head)),
            tensor.row_stride * size, rows, dim * size};
}

/// Starts to copy rows [begin, begin + Tile::rows); missing rows and columns past D become 0. Each
/// thread copies one 16-byte piece of every few rows.
template <int threads, class Tile>
__device__ inline void copy_rows_async(Tile& tile, const HeadRows& from, int begin) {
    constexpr int row_pieces = Tile::panels * 8;
    constexpr int step = threads / row_pieces;
    static_assert(Tile::rows % step == 0);
    const int piece = thread_index() % row_pieces;
    if (piece * 8 >= Tile::width) return;
    const int first = thread_index() / row_pieces;
    const bool in_row = piece * 16 < from.dim_bytes;
    const std::byte* place = from.data + (begin + first) * from.row_bytes + piece * 16;
    for (int i = 0; i < Tile::rows / step; ++i, place += step * from.row_bytes) {
        const int row = begin + first + i * step;
        const bool valid = in_row && row >= 0 && row < from.rows;
        copy_async_16(tile.at(first + i * step, piece * 8), place, valid);
    }
}

/// c[16 R x 8 C] = a b^T: rows from a_row on of tile a and from b_row on of tile b, summed over
/// Tile::width.
template <class T, int R, int C, class A, class B>
__device__ inline void multiply_transposed(float (&c)[R][C][4], const A& a, int a_row, const B& b,
                                           int b_row) {
    static_assert(C % 2 == 0 && A::width == B::width);
    const int lane = piece_offset();
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < C; ++j)
            for (float& x : c[r][j])
                x = 0;
    for (int k = 0; k < A::width; k += 16) {
        std::uint32_t left[R][4];
        for (int r = 0; r < R; ++r)
            load_tiles(left[r], a.piece(lane, a_row + 16 * r, k));
        for (int j = 0; j < C; j += 2) {
            std::uint32_t right[4];
            load_tiles(right, b.piece(lane, b_row + 8 * j, k));
            for (int r = 0; r < R; ++r) {
                multiply_add<T>(c[r][j], left[r], {right[0], right[2]});
                multiply_add<T>(c[r][j + 1], left[r], {right[1], right[3]});
            }
        }
    }
}

/// Rounds columns [16 k, 16 k + 16) of c from multiply_transposed into the registers of an operand
/// a.
template <class T, int C>
__device__ inline void narrow_piece(std::uint32_t (&piece)[4], const float (&c)[C][4], int k) {
    piece[0] = narrow2<T>(c[2 * k][0], c[2 * k][1]);
    piece[1] = narrow2<T>(c[2 * k][2], c[2 * k][3]);
    piece[2] = narrow2<T>(c[2 * k + 1][0], c[2 * k + 1][1]);
    piece[3] = narrow2<T>(c[2 * k + 1][2], c[2 * k + 1][3]);
}

/// sum[16 R x 8 W] += c[16 R x 8 C] b: rows from b_row on and columns from b_column on of tile b.
template <class T, int R, int C, int W, class B>
__device__ inline void multiply_accumulate(float (&sum)[R][W][4], const float (&c)[R][C][4],
                                           const B& b, int b_row, int b_column = 0) {
    static_assert(C % 2 == 0 && W % 2 == 0);
    const int lane = piece_offset();
    for (int k = 0; k < C / 2; ++k) {
        std::uint32_t left[R][4];
        for (int r = 0; r < R; ++r)
            narrow_piece<T>(left[r], c[r], k);
        for (int j = 0; j < W; j += 2) {
            std::uint32_t right[4];
            load_tiles_transposed(right, b.piece(lane, b_row + 16 * k, b_column + 8 * j));
            for (int r = 0; r < R; ++r) {
                multiply_add<T>(sum[r][j], left[r], {right[0], right[1]});
                multiply_add<T>(sum[r][j + 1], left[r], {right[2], right[3]});
            }
        }
    }
}

/// The destination of a tile's sums: rows of one head.
struct HeadOutput {
    HeadTensor tensor;
    int sequence;
    int head;
    int begin;  ///< row of the tensor that is the tile's first; may be negative
    int rows;   ///< in the tensor
    int dim;    ///< D

    __device__ bool has(int row) const { return begin + row >= 0 && begin + row < rows; }
    template <class T>
    __device__ T* at(int row, int column) const {
        return tensor.head<T>(sequence, head) + (begin + row) * tensor.row_stride + column;
    }
};

/// Writes rows [row, row + 16 R) of `to`, from `column` on, = factors sums, rounded to T;
/// factors[r][h] belongs to row 16 r + 8 h + lane / 4. Uses the tile's rows [row, ...) as a buffer,
/// so only this warp may need them.
template <class T, int R, int W, class Tile>
__device__ inline void store_rows(const HeadOutput& to, int row, int column, Tile& tile,
                                  const float (&sum)[R][W][4], const float (&factors)[R][2]) {
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    warp_barrier();
    unrolled<2 * R>([&](int row_pair) {
        const int r = row_pair / 2;
        const int h = row_pair % 2;
        const float f = factors[r][h];
        for (int j = 0; j < W; ++j) {
            std::byte* place = tile.at(row + 16 * r + 8 * h + g, 8 * j + 2 * t);
            store(reinterpret_cast<std::uint32_t*>(place),
                  narrow2<T>(sum[r][j][2 * h] * f, sum[r][j][2 * h + 1] * f));
        }
    });
    warp_barrier();
    for (int i = 0; i < 16 * R * W / warp_threads; ++i) {
        const int index = lane_index() + i * warp_threads;
        const int at_row = row + index / W;
        const int at_column = index % W * 8;
        if (!to.has(at_row) || column + at_column >= to.dim) continue;
        store(reinterpret_cast<Vec16<T>*>(to.at<T>(at_row, column + at_column)),
              load(reinterpret_cast<const Vec16<T>*>(tile.at(at_row, at_column))));
    }
}

/// Adds the same elements in fp32: += factor sums.
template <int R, int W>
__device__ inline void add_rows(const HeadOutput& to, int row, int column,
                                const float (&sum)[R][W][4], float factor) {
    const int g = lane_index() / 4;
    const int t = lane_index() % 4;
    unrolled<2 * R>([&](int row_pair) {
        const int r = row_pair / 2;
        const int h = row_pair % 2;
        const int at_row = row + 16 * r + 8 * h + g;
        if (!to.has(at_row)) return;
        float* place = to.at<float>(at_row, column);
        for (int j = 0; j < W; ++j) {
            if (column + 8 * j >= to.dim) continue;
            auto* pair = reinterpret_cast<Vec<float, 2>*>(place + 8 * j + 2 * t);
            Vec<float, 2> x = load(pair);
            x[0] = fma(sum[r][j][2 * h], factor, x[0]);
            x[1] = fma(sum[r][j][2 * h + 1], factor, x[1]);
            store(pair, x);
        }
    });
}

}  // namespace gptrain::cuda
