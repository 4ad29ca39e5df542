// dq on tensor cores. A block owns a tile of queries and loops over the keys that they see. Tiles
// of keys and values are double-buffered in shared memory: one in use, the next in flight.
#include "cuda/attention/gradient.cuh"
#include "cuda/attention/kernels.h"
#include "cuda/attention/launch.h"
#include "cuda/attention/tiles.cuh"

namespace gptrain::cuda {
namespace {

template <int width_, bool with_dropout_>
struct QueriesShape {
    static constexpr int width = width_;
    static constexpr bool with_dropout = with_dropout_;
    static constexpr bool changed = false;  ///< whether it has the soft cap and ALiBi
    static constexpr int warps = 4;
    static constexpr int threads = warps * warp_threads;
    static constexpr int row_tiles = width <= 64 ? 2 : 1;
    static constexpr int warp_rows = 16 * row_tiles;
    static constexpr int rows = warps * warp_rows;
    static constexpr int keys = width <= 128 ? 32 : 16;
    static constexpr int blocks_per_multiprocessor = 2;
};

template <int width>
struct ChangedQueriesShape : QueriesShape<width, true> {
    static constexpr bool changed = true;
};

template <class Shape>
struct QueriesShared {
    SharedTile<Shape::rows, Shape::width> q;
    SharedTile<Shape::rows, Shape::width> d_o;
    SharedTile<Shape::keys, Shape::width> k[2];
    SharedTile<Shape::keys, Shape::width> v[2];
    KeyBounds bounds[Shape::rows];
};

template <class Shape>
using Scores = float[Shape::row_tiles][Shape::keys / 8][4];

/// One value per row of this lane; [r][h] belongs to row 16 r + 8 h + lane / 4 after `query`.
template <class Shape>
struct RowStatistics {
    float lse_log2[Shape::row_tiles][2];
    float delta[Shape::row_tiles][2];
    __device__ RowStatistics(const AttentionParams& p, const AttentionGradients& gradients,
                             std::int64_t lse_row, int first) {
        for (int r = 0; r < Shape::row_tiles; ++r) {
            for (int h = 0; h < 2; ++h) {
                const int query = first + 16 * r + 8 * h + lane_index() / 4;
                const bool valid = query < p.queries;
                lse_log2[r][h] = valid ? cuda::lse_log2(load_constant(p.lse + lse_row + query)) : 0;
                delta[r][h] = valid ? load_constant(gradients.delta + lse_row + query) : 0;
            }
        }
    }
};

template <class Shape>
__device__ inline void probabilities(const AttentionParams& p,
                                     const RowStatistics<Shape>& statistics,
                                     Scores<Shape>& scores) {
    for (int r = 0; r < Shape::row_tiles; ++r) {
        for (int j = 0; j < Shape::keys / 8; ++j) {
            for (int i = 0; i < 4; ++i)
                scores[r][j][i] = probability(p, scores[r][j][i], statistics.lse_log2[r][i / 2]);
        }
    }
}

/// Applies `gradient` or `changed_gradient` to every element of dp; `query` and `key` are the first
/// ones.
template <class Shape>
__device__ inline void apply_gradient(const AttentionParams& p, int query, int key,
                                      const RowStatistics<Shape>& statistics,
                                      const KeyDropout& dropout, const ScoreChange& change,
                                      Scores<Shape>& probabilities, Scores<Shape>& dp) {
    const int first = change.distance(query + lane_index() / 4, key + lane_index() % 4 * 2);
    unrolled<Shape::row_tiles>([&](int r) {
        const std::uint32_t kept =
            draws<Shape>(p) ? dropout.rows<Shape::keys / 8>(query + 16 * r, key) : all_kept;
        for (int j = 0; j < Shape::keys / 8; ++j) {
            for (int i = 0; i < 4; ++i) {
                const bool keep = (kept >> (4 * j + i) & 1) != 0;
                const float delta = statistics.delta[r][i / 2];
                if constexpr (Shape::changed) {
                    const int distance = first + 16 * r + i / 2 * 8 - 8 * j - i % 2;
                    changed_gradient(p, change, distance, statistics.lse_log2[r][i / 2], delta,
                                     keep, probabilities[r][j][i], dp[r][j][i]);
                } else {
                    gradient<Shape::with_dropout>(p, delta, keep, probabilities[r][j][i],
                                                  dp[r][j][i]);
                }
            }
        }
    });
}

template <class T, class Shape>
__device__ inline void store_dq(const AttentionParams& p, const AttentionGradients& gradients,
                                const HeadOutput& to, int row, QueriesShared<Shape>& shared,
                                const float (&dq)[Shape::row_tiles][Shape::width / 8][4]) {
    if (gradients.accumulate) return add_rows(to, row, 0, dq, p.scale);
    float factors[Shape::row_tiles][2];
    for (auto& factor : factors)
        factor[0] = factor[1] = p.scale;
    store_rows<T>(to, row, 0, shared.q, dq, factors);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_multiprocessor)
    backward_queries_kernel(AttentionParams p, AttentionGradients gradients, BlockOrder order) {
    auto& shared = shared_memory<QueriesShared<Shape>>();
    const BlockPlace place = block_place(order);
    const int sequence = place.head / p.heads;
    const int head = place.head % p.heads;
    const int begin = place.tile * Shape::rows;
    const int row = warp_index() * Shape::warp_rows;
    const HeadRows k = head_rows<T>(p.k, sequence, p.group_of(head), p.keys, p.head_dim);
    const HeadRows v = head_rows<T>(p.v, sequence, p.group_of(head), p.keys, p.head_dim);
    const KeyRange range = visible_keys(p, sequence, begin, Shape::rows);
    const KeyDropout dropout(p, sequence, head, draws<Shape>(p));
    const ScoreChange change(p, head, Shape::changed);
    const int origin = key_origin(p, Shape::with_dropout);
    const RowStatistics<Shape> statistics(p, gradients, p.lse_row(sequence, head), begin + row);

    float dq[Shape::row_tiles][Shape::width / 8][4] = {};
    int key = origin + (range.begin - origin) / Shape::keys * Shape::keys;
    int stage = 0;
    fill_key_bounds<Shape::threads>(shared.bounds, p, sequence, begin);
    copy_rows_async<Shape::threads>(
        shared.q, head_rows<T>(p.q, sequence, head, p.queries, p.head_dim), begin);
    copy_rows_async<Shape::threads>(
        shared.d_o, head_rows<T>(gradients.d_o, sequence, head, p.queries, p.head_dim), begin);
    copy_rows_async<Shape::threads>(shared.k[0], k, key);
    copy_rows_async<Shape::threads>(shared.v[0], v, key);
    copy_async_commit();
    for (; key < range.end; key += Shape::keys, stage ^= 1) {
        copy_async_wait<0>();
        block_barrier();
        if (key + Shape::keys < range.end) {
            copy_rows_async<Shape::threads>(shared.k[stage ^ 1], k, key + Shape::keys);
            copy_rows_async<Shape::threads>(shared.v[stage ^ 1], v, key + Shape::keys);
            copy_async_commit();
        }
        Scores<Shape> scores;
        multiply_transposed<T>(scores, shared.q, row, shared.k[stage], 0);
        if (key < range.all_begin || key + Shape::keys > range.all_end)
            mask_keys(shared.bounds + row, key, scores);
        if (!Shape::changed) probabilities<Shape>(p, statistics, scores);
        Scores<Shape> dp;
        multiply_transposed<T>(dp, shared.d_o, row, shared.v[stage], 0);
        apply_gradient<Shape>(p, begin + row, key, statistics, dropout, change, scores, dp);
        multiply_accumulate<T>(dq, dp, shared.k[stage], 0);
    }
    copy_async_wait<0>();
    block_barrier();
    store_dq<T, Shape>(p, gradients, {gradients.dq, sequence, head, begin, p.queries, p.head_dim},
                       row, shared, dq);
}

template <class T, class Shape>
void launch_queries(const AttentionParams& params, const AttentionGradients& gradients,
                    const Stream& stream) {
    static_assert(shared_memory_fits<Shape, QueriesShared<Shape>>());
    const BlockOrder order = block_order(params, params.queries, Shape::rows, params.heads, true);
    launch(stream,
           {.blocks = order.blocks(),
            .threads = Shape::threads,
            .shared_bytes = sizeof(QueriesShared<Shape>)},
           backward_queries_kernel<T, Shape>, params, gradients, order);
}

}  // namespace

template <class T>
void tiled_attention_backward_queries(const AttentionParams& params,
                                      const AttentionGradients& gradients, const Stream& stream) {
    with_head_width(params.head_dim, [&](auto width) {
        constexpr int w = decltype(width)::value;
        if (params.changes_scores())
            return launch_queries<T, ChangedQueriesShape<w>>(params, gradients, stream);
        params.dropout.on() ? launch_queries<T, QueriesShape<w, true>>(params, gradients, stream)
                            : launch_queries<T, QueriesShape<w, false>>(params, gradients, stream);
    });
}

template void tiled_attention_backward_queries<Bf16>(const AttentionParams& params,
                                                     const AttentionGradients& gradients,
                                                     const Stream& stream);
template void tiled_attention_backward_queries<F16>(const AttentionParams& params,
                                                    const AttentionGradients& gradients,
                                                    const Stream& stream);

}  // namespace gptrain::cuda
