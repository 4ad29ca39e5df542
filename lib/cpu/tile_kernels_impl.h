// The kernels of tile_kernels.h for vector type V. Each including source chooses V and is compiled
// for its own instruction set, so nothing here may be shared between them (hence the anonymous
// namespace).
#pragma once

#include <limits>

#include "cpu/lanes.h"
#include "cpu/tile_kernels.h"
#include "cpu/vector_math.h"

namespace gptrain::cpu {
namespace {

inline TileOperand tile_itself(const TileView& tile, std::int64_t /*rows*/, std::int64_t /*cols*/,
                               float* /*memory*/) {
    return {tile.data, tile.row, tile.col};
}

/// A GEMM of tiles. Terms has the type of an operand's elements, how many terms of a sum an element
/// holds, and their arithmetic in vectors.
template <class Terms>
struct Product {
    using Vector = typename Terms::Vector;
    using Element = typename Terms::Element;
    const TileGemm& p;

    /// Computes rows [row, row + R) and columns [col, col + C Vector::size) of c in registers.
    template <int R, int C>
    void block(std::int64_t row, std::int64_t col) const {
        Vector sums[R][C];
        float* c = p.c + row * p.c_row + col;
        const auto at = [&](int r, int v) { return c + r * p.c_row + v * Vector::size; };
        const auto each_sum = [](const auto& f) {
            unrolled<R>([&](int r) { unrolled<C>([&](int v) { f(r, v); }); });
        };
        each_sum([&](int r, int v) {
            sums[r][v] = p.accumulate ? Vector::load(at(r, v)) : Vector(0.0f);
        });
        const Element* a = static_cast<const Element*>(p.a.data) + row * p.a.row;
        const Element* b = static_cast<const Element*>(p.b.data) + col;
        for (std::int64_t k = 0; k < p.length; k += Terms::per_element) {
            typename Terms::Elements right[C];
            unrolled<C>([&](int v) { right[v] = Terms::load(b + v * Vector::size); });
            unrolled<R>([&](int r) {
                const auto left = Terms::broadcast(a[r * p.a.row]);
                unrolled<C>([&](int v) { sums[r][v] = Terms::add(left, right[v], sums[r][v]); });
            });
            a += p.a.term;
            b += p.b.term;
        }
        const Vector scale = p.scale;
        each_sum([&](int r, int v) { (sums[r][v] * scale).store(at(r, v)); });
    }
};

/// Elements are fp32, in vectors of type V.
template <class V>
struct FloatTerms {
    using Vector = V;
    using Element = float;
    using Elements = V;
    static constexpr int per_element = 1;
    static V load(const float* b) { return V::load(b); }
    static V broadcast(float a) { return a; }
    static V add(V a, V b, V sum) { return fma(a, b, sum); }
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
    multiply_columns<Product<FloatTerms<V>>, R, C>({p}, p.rows, p.cols);
}

template <class V>
void change_scores(const ScoreTile& tile, const ScoreChange& how) {
    alignas(64) static constexpr float lanes[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                  8, 9, 10, 11, 12, 13, 14, 15};
    const V cap = how.softcap;
    const V inverse_cap = 1 / how.softcap;
    for (std::int64_t query = 0; query < tile.queries; query += V::size) {
        const V from_key = V::load(lanes) + V(how.distance + static_cast<float>(query));
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            const std::int64_t at = key * tile_size + query;
            V score = V::load(tile.scores + at);
            if (how.softcap > 0) {
                const V t = tanh(score * inverse_cap);
                score = cap * t;
                if (how.slopes != nullptr) fnma(t, t, V(1.0f)).store(how.slopes + at);
            }
            fnma(V(how.slope), from_key - V(static_cast<float>(key)), score)
                .store(tile.scores + at);
        }
    }
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
