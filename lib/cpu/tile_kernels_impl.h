// The kernels of tile_kernels.h for vector type V. Each including source chooses V and is compiled
// for its own instruction set, so nothing here may be shared between them (hence the anonymous
// namespace).
#pragma once

#include <limits>
#include <utility>

#include "cpu/tile_kernels.h"
#include "cpu/vector_math.h"

namespace gptrain::cpu {
namespace {

/// A GEMM of fp32 tiles in vectors of type V.
template <class V>
struct FloatProduct {
    using Vector = V;
    const TileGemm& p;

    /// Computes rows [row, row + R) and columns [col, col + C V::size) of c in registers.
    template <int R, int C>
    void block(std::int64_t row, std::int64_t col) const {
        V sums[R][C];
        float* c = p.c + row * p.c_row + col;
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < C; ++v)
                sums[r][v] = p.accumulate ? V::load(c + r * p.c_row + v * V::size) : V(0.0f);
        }
        const float* a = p.a + row * p.a_row;
        const float* b = p.b + col;
        for (std::int64_t k = 0; k < p.length; ++k) {
            V right[C];
            for (int v = 0; v < C; ++v)
                right[v] = V::load(b + v * V::size);
            for (int r = 0; r < R; ++r) {
                const V left = a[r * p.a_row];
                for (int v = 0; v < C; ++v)
                    sums[r][v] = fma(left, right[v], sums[r][v]);
            }
            a += p.a_col;
            b += p.b_row;
        }
        const V scale = p.scale;
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < C; ++v)
                (sums[r][v] * scale).store(c + r * p.c_row + v * V::size);
        }
    }
};

/// Computes the last `rows` < R rows.
template <class Product, int R, int C>
void multiply_last_rows(const Product& product, std::int64_t row, std::int64_t rows,
                        std::int64_t col) {
    if constexpr (R > 1) {
        if (rows == R - 1) {
            product.template block<R - 1, C>(row, col);
        } else {
            multiply_last_rows<Product, R - 1, C>(product, row, rows, col);
        }
    }
}

/// Computes columns [col, cols) in strips of C vectors, the rest in strips half as wide. R rows by
/// C vectors of sums must fit into the registers.
template <class Product, int R, int C>
void multiply_columns(const Product& product, std::int64_t rows, std::int64_t cols,
                      std::int64_t col = 0) {
    constexpr int width = C * Product::Vector::size;
    for (; col + width <= cols; col += width) {
        std::int64_t row = 0;
        for (; row + R <= rows; row += R)
            product.template block<R, C>(row, col);
        multiply_last_rows<Product, R, C>(product, row, rows - row, col);
    }
    if constexpr (width > tile_unit) multiply_columns<Product, R, C / 2>(product, rows, cols, col);
}

template <class V, int R, int C>
void multiply(const TileGemm& p) {
    multiply_columns<FloatProduct<V>, R, C>({p}, p.rows, p.cols);
}

template <class V>
V visible_score(const ScoreTile& tile, std::int64_t key, std::int64_t query) {
    const V score = V::load(tile.scores + key * tile_size + query);
    if (tile.first == nullptr) return score;
    const V hidden = -std::numeric_limits<float>::infinity();
    const V index = static_cast<float>(key);
    const V after = select_less(index, V::load(tile.first + query), hidden, score);
    return select_less(V::load(tile.last + query), index, hidden, after);
}

template <class V>
void softmax(const ScoreTile& tile, const SoftmaxState& state) {
    for (std::int64_t query = 0; query < tile.queries; query += V::size) {
        const V before = V::load(state.maximum + query);
        V maximum = before;
        for (std::int64_t key = 0; key < tile.keys; ++key)
            maximum = max(maximum, visible_score<V>(tile, key, query));
        const V base =
            select_less(maximum, V(std::numeric_limits<float>::lowest()), V(0.0f), maximum);
        V sum = 0.0f;
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            const std::int64_t at = key * tile_size + query;
            const V p = exp(visible_score<V>(tile, key, query) - base);
            sum = sum + p;
            const V kept = tile.dropout == nullptr ? p : p * V::load(tile.dropout + at);
            kept.store(tile.scores + at);
        }
        const V rescale = exp(before - base);
        rescale.store(state.rescale + query);
        fma(V::load(state.sum + query), rescale, sum).store(state.sum + query);
        maximum.store(state.maximum + query);
    }
}

template <class V>
void softmax_gradient(const ScoreTile& tile, const SoftmaxGradient& gradient) {
    for (std::int64_t query = 0; query < tile.queries; query += V::size) {
        const V lse = V::load(gradient.lse + query);
        const V delta = V::load(gradient.delta + query);
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            const std::int64_t at = key * tile_size + query;
            const V p = exp(visible_score<V>(tile, key, query) - lse);
            const V factor = tile.dropout == nullptr ? V(1.0f) : V::load(tile.dropout + at);
            const V dp = V::load(gradient.dp + at) * factor;
            (p * factor).store(tile.scores + at);
            (p * (dp - delta)).store(gradient.dp + at);
        }
    }
}

}  // namespace
}  // namespace gptrain::cpu
