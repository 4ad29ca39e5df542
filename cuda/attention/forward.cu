// Forward attention on tensor cores. A block owns a tile of queries and loops over the keys that
// they see. Probabilities stay in the registers that held the scores. Shared memory has one tile of
// keys and one of values: values are in flight during the scores, the next keys during the output.
#include <limits>

#include "cuda/attention/kernels.h"
#include "cuda/attention/launch.h"
#include "cuda/attention/scores.cuh"
#include "cuda/attention/tiles.cuh"

namespace gptrain::cuda {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Tile sizes for heads up to `width` wide. They must fit in 99 KB of shared memory.
template <int width_, bool with_dropout_>
struct ForwardShape {
    static constexpr int width = width_;
    static constexpr bool with_dropout = with_dropout_;
    static constexpr bool changed = false;  ///< whether it has the soft cap and ALiBi
    static constexpr int warps = 4;
    static constexpr int threads = warps * warp_threads;
    /// 16-row tiles per warp: two, where registers suffice, reuse the keys and values that they
    /// read.
    static constexpr int row_tiles = width <= (with_dropout ? 64 : 128) ? 2 : 1;
    static constexpr int warp_rows = 16 * row_tiles;
    static constexpr int rows = warps * warp_rows;
    static constexpr int keys = width > 96 && row_tiles > 1 ? 48 : 64;
    static constexpr int blocks_per_multiprocessor = 2;
};

template <int width>
struct ChangedForwardShape : ForwardShape<width, true> {
    static constexpr bool changed = true;
};

template <class Shape>
struct ForwardShared {
    SharedTile<Shape::rows, Shape::width> q;
    SharedTile<Shape::keys, Shape::width> k;
    SharedTile<Shape::keys, Shape::width> v;
    KeyBounds bounds[Shape::rows];
    HeadRows keys;  ///< the source of the tiles; in shared memory, because registers are scarce
    HeadRows values;
};

/// One warp's rows. [r][h] is row 16 r + 8 h + lane / 4.
template <class Shape>
struct ForwardState {
    float sum[Shape::row_tiles][2] = {};  ///< over the columns of this lane
    float maximum[Shape::row_tiles][2];   ///< of the scores so far, unscaled unless changed
    float o[Shape::row_tiles][Shape::width / 8][4] = {};
    __device__ ForwardState() {
        for (auto& row : maximum)
            row[0] = row[1] = -infinity;
    }
};

template <class Shape>
using Scores = float[Shape::row_tiles][Shape::keys / 8][4];

/// scores = exp(scale (scores - maximum)), with the maximum over all keys so far; rescales earlier
/// sums accordingly.
template <class Shape>
__device__ inline void softmax(const AttentionParams& p, Scores<Shape>& scores,
                               ForwardState<Shape>& state) {
    unrolled<2 * Shape::row_tiles>([&](int row) {
        const int r = row / 2;
        const int h = row % 2;
        float top = state.maximum[r][h];
        for (int j = 0; j < Shape::keys / 8; ++j)
            top = maximum(top, maximum(scores[r][j][2 * h], scores[r][j][2 * h + 1]));
        top = maximum(top, shuffle_xor(top, 1));
        top = maximum(top, shuffle_xor(top, 2));
        const float base = top == -infinity ? 0 : top * p.scale_log2;
        const float rescale = exp2_approx(fma(state.maximum[r][h], p.scale_log2, -base));
        state.maximum[r][h] = top;
        float sum = state.sum[r][h] * rescale;
        for (int j = 0; j < Shape::keys / 8; ++j) {
            for (int e = 0; e < 2; ++e) {
                float& score = scores[r][j][2 * h + e];
                score = exp2_approx(fma(score, p.scale_log2, -base));
                sum += score;
            }
        }
        state.sum[r][h] = sum;
        // After the first tiles, maxima seldom change.
        if (ballot(rescale != 1) == 0) return;
        for (int j = 0; j < Shape::width / 8; ++j) {
            state.o[r][j][2 * h] *= rescale;
            state.o[r][j][2 * h + 1] *= rescale;
        }
    });
}

/// Which probabilities dropout keeps, in the layout of KeyDropout::rows: one word per 16 rows.
template <class Shape>
struct Kept {
    std::uint32_t bits[Shape::row_tiles];
    __device__ Kept() {
        for (std::uint32_t& of_rows : bits)
            of_rows = all_kept;
    }
    __device__ void draw(const KeyDropout& dropout, int query, int key) {
        for (int r = 0; r < Shape::row_tiles; ++r)
            bits[r] = dropout.rows<Shape::keys / 8>(query + 16 * r, key);
    }
};

template <class Shape>
__device__ inline void drop(const Kept<Shape>& kept, Scores<Shape>& scores) {
    unrolled<Shape::row_tiles>([&](int r) {
        for (int j = 0; j < Shape::keys / 8; ++j) {
            for (int i = 0; i < 4; ++i)
                scores[r][j][i] = (kept.bits[r] >> (4 * j + i) & 1) != 0 ? scores[r][j][i] : 0;
        }
    });
}

/// Writes the warp's rows of o and lse. `row` is relative to the tile, which starts at query
/// `begin`.
template <class T, class Shape, class Tile>
__device__ inline void finish(const AttentionParams& p, const BlockPlace& place, int begin, int row,
                              float scale, ForwardState<Shape>& state, Tile& tile) {
    const int sequence = place.head / p.heads;
    const int head = place.head % p.heads;
    const float of_maximum = Shape::changed ? 1 : p.scale;
    float factors[Shape::row_tiles][2];
    unrolled<2 * Shape::row_tiles>([&](int row_pair) {
        const int r = row_pair / 2;
        const int h = row_pair % 2;
        float sum = state.sum[r][h];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
        const bool none = state.maximum[r][h] == -infinity;
        factors[r][h] = none ? 0 : scale / sum;
        const int query = begin + row + 8 * row_pair + lane_index() / 4;
        if (lane_index() % 4 == 0 && query < p.queries) {
            p.lse[p.lse_row(sequence, head) + query] =
                none ? -infinity : fma(state.maximum[r][h], of_maximum, logarithm(sum));
        }
    });
    store_rows<T>({p.o, sequence, head, begin, p.queries, p.head_dim}, row, 0, tile, state.o,
                  factors);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_multiprocessor)
    forward_kernel(AttentionParams p, BlockOrder order) {
    auto& shared = shared_memory<ForwardShared<Shape>>();
    const BlockPlace place = block_place(order);
    const int sequence = place.head / p.heads;
    const int head = place.head % p.heads;
    const int begin = place.tile * Shape::rows;
    const int row = warp_index() * Shape::warp_rows;
    const HeadRows q = head_rows<T>(p.q, sequence, head, p.queries, p.head_dim);
    const KeyRange range = visible_keys(p, sequence, begin, Shape::rows);
    const KeyDropout dropout(p, sequence, head, draws<Shape>(p));
    const ScoreChange change(p, head, Shape::changed);
    const int origin = key_origin(p, Shape::with_dropout);

    ForwardState<Shape> state;
    int key = origin + (range.begin - origin) / Shape::keys * Shape::keys;
    fill_key_bounds<Shape::threads>(shared.bounds, p, sequence, begin);
    if (thread_index() == 0) {
        shared.keys = head_rows<T>(p.k, sequence, p.group_of(head), p.keys, p.head_dim);
        shared.values = head_rows<T>(p.v, sequence, p.group_of(head), p.keys, p.head_dim);
    }
    block_barrier();
    copy_rows_async<Shape::threads>(shared.q, q, begin);
    copy_rows_async<Shape::threads>(shared.k, shared.keys, key);
    copy_async_commit();
    for (; key < range.end; key += Shape::keys) {
        copy_async_wait<0>();
        block_barrier();
        copy_rows_async<Shape::threads>(shared.v, shared.values, key);
        copy_async_commit();
        Kept<Shape> kept;
        if (draws<Shape>(p)) kept.draw(dropout, begin + row, key);
        Scores<Shape> scores;
        multiply_transposed<T>(scores, shared.q, row, shared.k, 0);
        if (Shape::changed) change_scores(change, begin + row, key, scores);
        if (key < range.all_begin || key + Shape::keys > range.all_end)
            mask_keys(shared.bounds + row, key, scores);
        copy_async_wait<0>();
        block_barrier();
        if (key + Shape::keys < range.end) {
            copy_rows_async<Shape::threads>(shared.k, shared.keys, key + Shape::keys);
            copy_async_commit();
        }
        softmax<Shape>(p, scores, state);
        if (Shape::with_dropout) drop<Shape>(kept, scores);
        multiply_accumulate<T>(state.o, scores, shared.v, 0);
    }
    copy_async_wait<0>();
    block_barrier();
    finish<T, Shape>(p, place, begin, row, dropout.scale(), state, shared.q);
}

template <class T, class Shape>
void launch_forward(const AttentionParams& params, const Stream& stream) {
    static_assert(shared_memory_fits<Shape, ForwardShared<Shape>>());
    const BlockOrder order = block_order(params, params.queries, Shape::rows, params.heads, true);
    launch(stream,
           {.blocks = order.blocks(),
            .threads = Shape::threads,
            .shared_bytes = sizeof(ForwardShared<Shape>)},
           forward_kernel<T, Shape>, params, order);
}

}  // namespace

template <class T>
void tiled_attention_forward(const AttentionParams& params, const Stream& stream) {
    with_head_width(params.head_dim, [&](auto width) {
        constexpr int w = decltype(width)::value;
        if (params.changes_scores())
            return launch_forward<T, ChangedForwardShape<w>>(params, stream);
        params.dropout.on() ? launch_forward<T, ForwardShape<w, true>>(params, stream)
                            : launch_forward<T, ForwardShape<w, false>>(params, stream);
    });
}

template void tiled_attention_forward<Bf16>(const AttentionParams& params, const Stream& stream);
template void tiled_attention_forward<F16>(const AttentionParams& params, const Stream& stream);

}  // namespace gptrain::cuda
