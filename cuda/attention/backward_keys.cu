// dk and dv on tensor cores. A block owns a tile of keys and values and loops over the queries that
// see them, one head of the group after another. Tiles of queries are double-buffered in shared
// memory: one in use, the next in flight. Scores are computed as [keys, queries], so that their
// registers already form the operand for the sums over queries.
#include "cuda/attention/gradient.cuh"
#include "cuda/attention/kernels.h"
#include "cuda/attention/launch.h"
#include "cuda/attention/tiles.cuh"

namespace gptrain::cuda {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <int width_, bool with_dropout_>
struct KeysShape {
    static constexpr int width = width_;
    static constexpr bool with_dropout = with_dropout_;
    static constexpr bool changed = false;  ///< whether it has the soft cap and ALiBi
    static constexpr int warps = 4;
    static constexpr int threads = warps * warp_threads;
    static constexpr int row_tiles = width <= 64 ? 2 : 1;
    static constexpr int warp_rows = 16 * row_tiles;
    static constexpr int rows = warps * warp_rows;
    /// As many as fit in registers.
    static constexpr int queries = width > 128 || (width <= 64 && with_dropout) ? 16 : 32;
    /// Columns of dk and dv that one block computes; wider heads take two blocks.
    static constexpr int out_width = width < 128 ? width : 128;
    static constexpr int parts = width / out_width;
    static constexpr int blocks_per_multiprocessor = 2;
};

template <int width>
struct ChangedKeysShape : KeysShape<width, true> {
    static constexpr bool changed = true;
};

/// A tile of queries of one head.
template <class Shape>
struct QueryTile {
    SharedTile<Shape::queries, Shape::width> q;
    SharedTile<Shape::queries, Shape::width> d_o;
};
template <class Shape>
struct QueryRows {
    Vec<float, 2> lse_and_delta[Shape::queries];
};

/// Rows of head 0 of the sequence. Stored in shared memory, because registers are scarce.
struct QuerySource {
    HeadRows q;
    HeadRows d_o;
    const float* lse;
    const float* delta;
};

template <class Shape>
struct KeysShared {
    SharedTile<Shape::rows, Shape::width> k;
    SharedTile<Shape::rows, Shape::width> v;
    QueryTile<Shape> tiles[2];
    QueryRows<Shape> rows[2];
    QuerySource source;
};

template <class Shape>
using Scores = float[Shape::row_tiles][Shape::queries / 8][4];
template <class Shape>
using Sums = float[Shape::row_tiles][Shape::out_width / 8][4];

/// Identifies a tile of queries of one head.
struct QueryPlace {
    int head;
    int query;
};

/// Visits the tiles of queries that see at least one of the block's keys, one head of the group
/// after the other.
template <class Shape>
class VisibleQueryTiles {
public:
    __device__ VisibleQueryTiles(const AttentionParams& p, int sequence, int group, int key)
        : p_(p), sequence_(sequence), group_(group), key_(key) {}

    __device__ QueryPlace first() const { return from({group_ * p_.group_heads, first_query()}); }
    __device__ QueryPlace after(const QueryPlace& place) const {
        return from({place.head, place.query + Shape::queries});
    }
    __device__ bool has(const QueryPlace& place) const { return place.head < heads_end(); }
    /// True if some query of the tile cannot see some key of the block.
    __device__ bool needs_mask(int query) const {
        const KeyRange range = visible_keys(p_, sequence_, query, Shape::queries);
        return first_key() < range.all_begin || key_end() > range.all_end;
    }

private:
    __device__ int heads_end() const { return (group_ + 1) * p_.group_heads; }
    __device__ int first_key() const { return std::max(key_, 0); }
    __device__ int key_end() const { return std::min(key_ + Shape::rows, p_.keys); }
    __device__ int first_query() const {
        return clamped(first_key() - p_.diagonal, 0, p_.queries) / Shape::queries * Shape::queries;
    }
    __device__ QueryPlace from(QueryPlace place) const {
        for (; has(place); ++place.head, place.query = first_query()) {
            for (; place.query < p_.queries; place.query += Shape::queries) {
                const KeyRange range = visible_keys(p_, sequence_, place.query, Shape::queries);
                if (range.begin >= key_end()) break;  // so do all later ones
                if (range.end > first_key()) return place;
            }
        }
        return place;
    }

    const AttentionParams& p_;
    int sequence_;
    int group_;
    int key_;
};

template <class T>
__device__ inline QuerySource query_source(const AttentionParams& p,
                                           const AttentionGradients& gradients, int sequence) {
    const std::int64_t row = p.lse_row(sequence, 0);
    return {head_rows<T>(p.q, sequence, 0, p.queries, p.head_dim),
            head_rows<T>(gradients.d_o, sequence, 0, p.queries, p.head_dim), p.lse + row,
            gradients.delta + row};
}

/// Starts to copy one tile of queries.
template <class T, class Shape>
__device__ inline void copy_queries(const AttentionParams& p, const AttentionGradients& gradients,
                                    const QueryPlace& place, KeysShared<Shape>& shared, int stage) {
    const QuerySource& from = shared.source;
    const auto [head, query] = place;
    copy_rows_async<Shape::threads>(shared.tiles[stage].q, from.q.after<T>(head * p.q.head_stride),
                                    query);
    copy_rows_async<Shape::threads>(shared.tiles[stage].d_o,
                                    from.d_o.after<T>(head * gradients.d_o.head_stride), query);
    static_assert(2 * Shape::queries <= Shape::threads);
    if (thread_index() < 2 * Shape::queries) {
        QueryRows<Shape>& rows = shared.rows[stage];
        const int i = thread_index() % Shape::queries;
        const bool first = thread_index() < Shape::queries;
        const bool valid = query + i < p.queries;
        const float* numbers = (first ? from.lse : from.delta) + std::int64_t{head} * p.queries;
        copy_async<4>(&rows.lse_and_delta[i][first ? 0 : 1], numbers + (valid ? query + i : 0),
                      valid);
    }
    copy_async_commit();
}

/// Sets the scores [keys, queries] of invisible keys to -infinity; `key` and `query` are the first
/// ones.
template <class Shape>
__device__ inline void mask(const AttentionParams& p, int sequence, int key, int query,
                            Scores<Shape>& scores) {
    unrolled<Shape::queries / 4>([&](int column) {
        const int i = column / 2 * 8 + lane_index() % 4 * 2 + column % 2;
        const KeyBounds bounds = key_bounds(p, sequence, query + i).from(key + lane_index() / 4);
        for (int r = 0; r < Shape::row_tiles; ++r) {
            for (int h = 0; h < 2; ++h) {
                float& score = scores[r][column / 2][2 * h + column % 2];
                if (!bounds.sees(16 * r + 8 * h)) score = -infinity;
            }
        }
    });
}

template <class Shape>
__device__ inline void probabilities(const AttentionParams& p, const QueryRows<Shape>& rows,
                                     Scores<Shape>& scores) {
    unrolled<Shape::queries / 4>([&](int column) {
        const int j = column / 2;
        const int e = column % 2;
        const int i = 8 * j + lane_index() % 4 * 2 + e;
        const float lse = lse_log2(load(rows.lse_and_delta + i)[0]);
        for (int r = 0; r < Shape::row_tiles; ++r) {
            for (int h = 0; h < 2; ++h) {
                float& score = scores[r][j][2 * h + e];
                score = probability(p, score, lse);
            }
        }
    });
}

/// Applies `gradient` or `changed_gradient` to every element of dp [keys, queries]; `key` and
/// `query` are the first ones.
template <class Shape>
__device__ inline void apply_gradient(const AttentionParams& p, int key, int query,
                                      const QueryRows<Shape>& rows, const KeyDropout& dropout,
                                      const ScoreChange& change, Scores<Shape>& probabilities,
                                      Scores<Shape>& dp) {
    const int first = change.distance(query + lane_index() % 4 * 2, key + lane_index() / 4);
    std::uint32_t kept[Shape::row_tiles];
    for (int r = 0; r < Shape::row_tiles; ++r) {
        kept[r] =
            draws<Shape>(p) ? dropout.columns<Shape::queries / 8>(key + 16 * r, query) : all_kept;
    }
    unrolled<Shape::queries / 4>([&](int column) {
        const int j = column / 2;
        const int e = column % 2;
        const Vec<float, 2> row = load(rows.lse_and_delta + 8 * j + lane_index() % 4 * 2 + e);
        for (int r = 0; r < Shape::row_tiles; ++r) {
            for (int h = 0; h < 2; ++h) {
                const int i = 2 * h + e;
                const bool keep = (kept[r] >> (4 * j + i) & 1) != 0;
                if constexpr (Shape::changed) {
                    const int distance = first + 8 * j + e - 16 * r - 8 * h;
                    changed_gradient(p, change, distance, lse_log2(row[0]), row[1], keep,
                                     probabilities[r][j][i], dp[r][j][i]);
                } else {
                    gradient<Shape::with_dropout>(p, row[1], keep, probabilities[r][j][i],
                                                  dp[r][j][i]);
                }
            }
        }
    });
}

template <class T, class Shape, class Tile>
__device__ inline void store_sums(const HeadOutput& to, int row, int column, Tile& tile,
                                  const Sums<Shape>& sums, float factor, bool accumulate) {
    if (accumulate) return add_rows(to, row, column, sums, factor);
    float factors[Shape::row_tiles][2];
    for (auto& of_row : factors)
        of_row[0] = of_row[1] = factor;
    store_rows<T>(to, row, column, tile, sums, factors);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_multiprocessor)
    backward_keys_kernel(AttentionParams p, AttentionGradients gradients, BlockOrder order) {
    auto& shared = shared_memory<KeysShared<Shape>>();
    const BlockPlace place = block_place(order);
    const int sequence = place.head / p.groups;
    const int group = place.head % p.groups;
    const int key = key_origin(p, Shape::with_dropout) + place.tile * Shape::rows;
    const int row = warp_index() * Shape::warp_rows;
    const int column = block_index().y * Shape::out_width;

    Sums<Shape> dk = {};
    Sums<Shape> dv = {};
    float dropout_scale = 1;
    const VisibleQueryTiles<Shape> queries(p, sequence, group, key);
    QueryPlace next = queries.first();
    int stage = 0;
    copy_rows_async<Shape::threads>(shared.k,
                                    head_rows<T>(p.k, sequence, group, p.keys, p.head_dim), key);
    copy_rows_async<Shape::threads>(shared.v,
                                    head_rows<T>(p.v, sequence, group, p.keys, p.head_dim), key);
    if (thread_index() == 0) shared.source = query_source<T>(p, gradients, sequence);
    block_barrier();
    if (queries.has(next)) copy_queries<T>(p, gradients, next, shared, 0);
    for (; queries.has(next); stage ^= 1) {
        const auto [head, query] = next;
        next = queries.after(next);
        copy_async_wait<0>();
        block_barrier();
        if (queries.has(next)) copy_queries<T>(p, gradients, next, shared, stage ^ 1);
        const auto& tile = shared.tiles[stage];
        const KeyDropout dropout(p, sequence, head, draws<Shape>(p));
        const ScoreChange change(p, head, Shape::changed);
        dropout_scale = dropout.scale();
        Scores<Shape> scores;
        multiply_transposed<T>(scores, shared.k, row, tile.q, 0);
        if (queries.needs_mask(query)) mask<Shape>(p, sequence, key + row, query, scores);
        if (!Shape::changed) probabilities<Shape>(p, shared.rows[stage], scores);
        Scores<Shape> dp;
        multiply_transposed<T>(dp, shared.v, row, tile.d_o, 0);
        apply_gradient<Shape>(p, key + row, query, shared.rows[stage], dropout, change, scores, dp);
        multiply_accumulate<T>(dv, scores, tile.d_o, 0, column);
        multiply_accumulate<T>(dk, dp, tile.q, 0, column);
    }
    copy_async_commit();
    copy_async_wait<0>();
    block_barrier();
    store_sums<T, Shape>({gradients.dk, sequence, group, key, p.keys, p.head_dim}, row, column,
                         shared.k, dk, p.scale, gradients.accumulate);
    store_sums<T, Shape>({gradients.dv, sequence, group, key, p.keys, p.head_dim}, row, column,
                         shared.v, dv, dropout_scale, gradients.accumulate);
}

template <class T, class Shape>
void launch_keys(const AttentionParams& params, const AttentionGradients& gradients,
                 const Stream& stream) {
    static_assert(shared_memory_fits<Shape, KeysShared<Shape>>());
    const BlockOrder order =
        block_order(params, params.keys - key_origin(params, Shape::with_dropout), Shape::rows,
                    params.groups, false);
    launch(stream,
           {.blocks = order.blocks(),
            .threads = Shape::threads,
            .shared_bytes = sizeof(KeysShared<Shape>),
            .blocks_y = Shape::parts},
           backward_keys_kernel<T, Shape>, params, gradients, order);
}

}  // namespace

template <class T>
void tiled_attention_backward_keys(const AttentionParams& params,
                                   const AttentionGradients& gradients, const Stream& stream) {
    with_head_width(params.head_dim, [&](auto width) {
        constexpr int w = decltype(width)::value;
        if (params.changes_scores())
            return launch_keys<T, ChangedKeysShape<w>>(params, gradients, stream);
        params.dropout.on() ? launch_keys<T, KeysShape<w, true>>(params, gradients, stream)
                            : launch_keys<T, KeysShape<w, false>>(params, gradients, stream);
    });
}

template void tiled_attention_backward_keys<Bf16>(const AttentionParams& params,
                                                  const AttentionGradients& gradients,
                                                  const Stream& stream);
template void tiled_attention_backward_keys<F16>(const AttentionParams& params,
                                                 const AttentionGradients& gradients,
                                                 const Stream& stream);

}  // namespace gptrain::cuda
