// fp32 tiles that the plain attention kernels share. A block has 8 by 16 threads. In a tile, thread
// (r, c) owns rows R r to R r + R - 1 and columns c, c + 16, c + 32, ...
#pragma once

#include "cuda/attention/mask.cuh"

namespace gptrain::cuda {

/// R rows per thread; heads up to 16 M wide.
template <int R, int M>
struct PlainShape {
    static constexpr bool changed = false;  ///< whether it has the soft cap and ALiBi
    static constexpr int threads = 128;
    static constexpr int thread_rows = R;
    static constexpr int rows = 8 * R;         ///< of a tile, for queries and keys
    static constexpr int columns = rows / 16;  ///< of the scores, per thread
    static constexpr int features = M;         ///< of the sums, per thread
    static constexpr int width = 16 * M;
    static constexpr int blocks_per_multiprocessor = 2;
};

template <int R, int M>
struct ChangedPlainShape : PlainShape<R, M> {
    static constexpr bool changed = true;
};

/// The row stride is odd, so that threads reading a column use different banks.
template <class Shape>
struct PlainRows {
    float at[Shape::rows][Shape::width + 1];
};
template <class Shape>
struct PlainScores {
    float at[Shape::rows][Shape::rows + 1];
};

template <class Shape>
using ThreadScores = float[Shape::thread_rows][Shape::columns];
template <class Shape>
using ThreadSums = float[Shape::thread_rows][Shape::features];

template <class Shape>
__device__ inline int thread_row() {
    return thread_index() / 16 * Shape::thread_rows;
}
__device__ inline int thread_column() {
    return thread_index() % 16;
}

/// Loads rows [begin, ...) of one head; missing rows and columns past D become 0.
template <class T, class Shape>
__device__ inline void load_rows(PlainRows<Shape>& tile, const HeadTensor& tensor, int sequence,
                                 int head, int begin, int rows, int dim) {
    const T* from = tensor.head<T>(sequence, head);
    for (int i = thread_index(); i < Shape::rows * Shape::width; i += Shape::threads) {
        const int row = i / Shape::width;
        const int column = i % Shape::width;
        const bool valid = begin + row < rows && column < dim;
        tile.at[row][column] =
            valid ? widen(load_constant(from + (begin + row) * tensor.row_stride + column)) : 0;
    }
}

/// The number of existing rows of a tile that starts at `begin`.
template <class Shape>
__device__ inline int valid_rows(int begin, int rows) {
    return rows - begin < Shape::rows ? rows - begin : Shape::rows;
}

/// c = a b^T
template <class Shape>
__device__ inline void multiply_transposed(ThreadScores<Shape>& c, const PlainRows<Shape>& a,
                                           const PlainRows<Shape>& b, int dim) {
    for (auto& row : c)
        for (float& x : row)
            x = 0;
    for (int d = 0; d < dim; ++d) {
        float right[Shape::columns];
        for (int j = 0; j < Shape::columns; ++j)
            right[j] = b.at[thread_column() + 16 * j][d];
        for (int i = 0; i < Shape::thread_rows; ++i) {
            const float left = a.at[thread_row<Shape>() + i][d];
            for (int j = 0; j < Shape::columns; ++j)
                c[i][j] = fma(left, right[j], c[i][j]);
        }
    }
}

template <class Shape>
__device__ inline void store_scores(PlainScores<Shape>& to, const ThreadScores<Shape>& c) {
    for (int i = 0; i < Shape::thread_rows; ++i) {
        for (int j = 0; j < Shape::columns; ++j)
            to.at[thread_row<Shape>() + i][thread_column() + 16 * j] = c[i][j];
    }
}

/// sum += a b over the first `count` rows of b.
template <class Shape>
__device__ inline void multiply_accumulate(ThreadSums<Shape>& sum, const PlainScores<Shape>& a,
                                           const PlainRows<Shape>& b, int count) {
    for (int k = 0; k < count; ++k) {
        float right[Shape::features];
        for (int m = 0; m < Shape::features; ++m)
            right[m] = b.at[k][thread_column() + 16 * m];
        for (int i = 0; i < Shape::thread_rows; ++i) {
            const float left = a.at[thread_row<Shape>() + i][k];
            for (int m = 0; m < Shape::features; ++m)
                sum[i][m] = fma(left, right[m], sum[i][m]);
        }
    }
}

/// Rows [begin, ...) of one head = factor sums in T, or, if `accumulate`, += in fp32.
template <class T, class Shape>
__device__ inline void store_sums(const HeadTensor& tensor, int sequence, int head, int begin,
                                  int rows, int dim, const ThreadSums<Shape>& sum,
                                  const float (&factors)[Shape::thread_rows], bool accumulate) {
    for (int i = 0; i < Shape::thread_rows; ++i) {
        const int row = begin + thread_row<Shape>() + i;
        if (row >= rows) return;
        for (int m = 0; m < Shape::features; ++m) {
            const int column = thread_column() + 16 * m;
            if (column >= dim) continue;
            const float x = sum[i][m] * factors[i];
            if (accumulate) {
                tensor.head<float>(sequence, head)[row * tensor.row_stride + column] += x;
            } else {
                tensor.head<T>(sequence, head)[row * tensor.row_stride + column] = narrow<T>(x);
            }
        }
    }
}

}  // namespace gptrain::cuda
