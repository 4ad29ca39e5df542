// Tiled attention in fp32 without tensor cores: for fp32, and for heads and strides that the
// tensor-core kernels do not support. Each kernel owns the rows that it writes and loops over the
// other side in order.
#include "cuda/attention/plain.cuh"

#include <limits>

#include "cuda/attention/gradient.cuh"
#include "cuda/attention/kernels.h"
#include "cuda/attention/launch.h"

namespace gptrain::cuda {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// ---- forward ------------------------------------------------------------------------------------

template <class Shape>
struct ForwardShared {
    PlainRows<Shape> q;
    PlainRows<Shape> k;
    PlainRows<Shape> v;
    PlainScores<Shape> probabilities;
};

template <class Shape>
struct ForwardState {
    float maximum[Shape::thread_rows];  ///< of the scores so far, unscaled unless changed
    float sum[Shape::thread_rows];      ///< over the columns of this thread
    ThreadSums<Shape> o;
};

/// Over the 16 threads of a row.
__device__ inline float row_maximum(float x) {
    for (int mask = 1; mask < 16; mask *= 2)
        x = maximum(x, shuffle_xor(x, mask));
    return x;
}
__device__ inline float row_sum(float x) {
    for (int mask = 1; mask < 16; mask *= 2)
        x += shuffle_xor(x, mask);
    return x;
}

/// Turns the products of a thread into scores; `query` and `key` are the first ones.
template <class Shape>
__device__ inline void change_thread_scores(const ScoreChange& change, int query, int key,
                                            ThreadScores<Shape>& scores) {
    const int first = change.distance(query, key + thread_column());
    unrolled<Shape::thread_rows * Shape::columns>([&](int at) {
        const int i = at / Shape::columns;
        const int j = at % Shape::columns;
        scores[i][j] = change.score(scores[i][j], first + i - 16 * j);
    });
}

/// Turns the scores of keys from `key` on into probabilities, up to a factor known only at the end.
template <class Shape, bool with_dropout>
__device__ inline void softmax(const AttentionParams& p, int sequence, int query, int key,
                               const KeyDropout& dropout, ThreadScores<Shape>& scores,
                               ForwardState<Shape>& state) {
    const bool drawn = draws<Shape, with_dropout>(p);
    for (int i = 0; i < Shape::thread_rows; ++i) {
        const KeyBounds bounds = key_bounds(p, sequence, query + i).from(key + thread_column());
        float top = state.maximum[i];
        for (int j = 0; j < Shape::columns; ++j) {
            if (!bounds.sees(16 * j)) scores[i][j] = -infinity;
            top = maximum(top, scores[i][j]);
        }
        top = row_maximum(top);
        const float base = top == -infinity ? 0 : top * p.scale_log2;
        const float rescale = exp2_approx(fma(state.maximum[i], p.scale_log2, -base));
        state.maximum[i] = top;
        state.sum[i] *= rescale;
        for (float& o : state.o[i])
            o *= rescale;
        for (int j = 0; j < Shape::columns; ++j) {
            const float x = exp2_approx(fma(scores[i][j], p.scale_log2, -base));
            state.sum[i] += x;
            const bool kept = !drawn || dropout.kept(query + i, key + thread_column() + 16 * j);
            scores[i][j] = kept ? x : 0;
        }
    }
}

template <class T, class Shape, bool with_dropout>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_multiprocessor)
    plain_forward_kernel(AttentionParams p, BlockOrder order) {
    auto& shared = shared_memory<ForwardShared<Shape>>();
    const BlockPlace place = block_place(order);
    const int sequence = place.head / p.heads;
    const int head = place.head % p.heads;
    const int begin = place.tile * Shape::rows;
    const int query = begin + thread_row<Shape>();
    const KeyRange range = visible_keys(p, sequence, begin, Shape::rows);
    const KeyDropout dropout(p, sequence, head, draws<Shape, with_dropout>(p));
    const ScoreChange change(p, head, Shape::changed);

    ForwardState<Shape> state = {};
    for (float& maximum : state.maximum)
        maximum = -infinity;
    load_rows<T>(shared.q, p.q, sequence, head, begin, p.queries, p.head_dim);
    for (int key = range.begin / Shape::rows * Shape::rows; key < range.end; key += Shape::rows) {
        block_barrier();
        load_rows<T>(shared.k, p.k, sequence, p.group_of(head), key, p.keys, p.head_dim);
        load_rows<T>(shared.v, p.v, sequence, p.group_of(head), key, p.keys, p.head_dim);
        block_barrier();
        ThreadScores<Shape> scores;
        multiply_transposed<Shape>(scores, shared.q, shared.k, p.head_dim);
        if (Shape::changed) change_thread_scores<Shape>(change, query, key, scores);
        softmax<Shape, with_dropout>(p, sequence, query, key, dropout, scores, state);
        store_scores(shared.probabilities, scores);
        block_barrier();
        multiply_accumulate<Shape>(state.o, shared.probabilities, shared.v,
                                   valid_rows<Shape>(key, p.keys));
    }
    const float of_maximum = Shape::changed ? 1 : p.scale;
    float factors[Shape::thread_rows];
    for (int i = 0; i < Shape::thread_rows; ++i) {
        const float sum = row_sum(state.sum[i]);
        const bool none = state.maximum[i] == -infinity;
        factors[i] = none ? 0 : dropout.scale() / sum;
        if (thread_column() == 0 && query + i < p.queries) {
            p.lse[p.lse_row(sequence, head) + query + i] =
                none ? -infinity : fma(state.maximum[i], of_maximum, logarithm(sum));
        }
    }
    store_sums<T, Shape>(p.o, sequence, head, begin, p.queries, p.head_dim, state.o, factors,
                         false);
}

// ---- backward -----------------------------------------------------------------------------------

/// `own` holds the block's rows and `other` those that it loops over; [0] is q or k, [1] is d_o or
/// v.
template <class Shape>
struct BackwardShared {
    PlainRows<Shape> own[2];
    PlainRows<Shape> other[2];
    PlainScores<Shape> probabilities;
    PlainScores<Shape> gradients;
};

/// Applies `gradient` or `changed_gradient` to one score and the gradient of its dropped
/// probability.
template <class Shape, bool with_dropout>
__device__ inline void pair_gradient(const AttentionParams& p, const AttentionGradients& gradients,
                                     int sequence, int head, int query, int key,
                                     const KeyDropout& dropout, const ScoreChange& change,
                                     float& score, float& dp) {
    if (query >= p.queries || !key_bounds(p, sequence, query).sees(key)) {
        score = dp = 0;
        return;
    }
    const std::int64_t row = p.lse_row(sequence, head) + query;
    const bool drawn = draws<Shape, with_dropout>(p);
    const bool kept = !drawn || dropout.kept(query, key);
    const float lse = lse_log2(load_constant(p.lse + row));
    const float delta = load_constant(gradients.delta + row);
    if constexpr (Shape::changed) {
        changed_gradient(p, change, change.distance(query, key), lse, delta, kept, score, dp);
    } else {
        score = probability(p, score, lse);
        gradient<with_dropout>(p, delta, kept, score, dp);
    }
}

/// Calls f(i, j) for each of a thread's scores. What changes scores is too long for the compiler to
/// unroll by itself, and a loop would keep them in local memory.
template <class Shape, class F>
__device__ inline void for_each_score(const F& f) {
    if constexpr (Shape::changed) {
        unrolled<Shape::thread_rows * Shape::columns>(
            [&](int at) { f(at / Shape::columns, at % Shape::columns); });
    } else {
        for (int i = 0; i < Shape::thread_rows; ++i)
            for (int j = 0; j < Shape::columns; ++j)
                f(i, j);
    }
}

template <class T, class Shape, bool with_dropout>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_multiprocessor)
    plain_queries_kernel(AttentionParams p, AttentionGradients gradients, BlockOrder order) {
    auto& shared = shared_memory<BackwardShared<Shape>>();
    const BlockPlace place = block_place(order);
    const int sequence = place.head / p.heads;
    const int head = place.head % p.heads;
    const int begin = place.tile * Shape::rows;
    const KeyRange range = visible_keys(p, sequence, begin, Shape::rows);
    const KeyDropout dropout(p, sequence, head, draws<Shape, with_dropout>(p));
    const ScoreChange change(p, head, Shape::changed);

    ThreadSums<Shape> dq = {};
    load_rows<T>(shared.own[0], p.q, sequence, head, begin, p.queries, p.head_dim);
    load_rows<T>(shared.own[1], gradients.d_o, sequence, head, begin, p.queries, p.head_dim);
    for (int key = range.begin / Shape::rows * Shape::rows; key < range.end; key += Shape::rows) {
        block_barrier();
        load_rows<T>(shared.other[0], p.k, sequence, p.group_of(head), key, p.keys, p.head_dim);
        load_rows<T>(shared.other[1], p.v, sequence, p.group_of(head), key, p.keys, p.head_dim);
        block_barrier();
        ThreadScores<Shape> scores, dp;
        multiply_transposed<Shape>(scores, shared.own[0], shared.other[0], p.head_dim);
        multiply_transposed<Shape>(dp, shared.own[1], shared.other[1], p.head_dim);
        for_each_score<Shape>([&](int i, int j) {
            pair_gradient<Shape, with_dropout>(
                p, gradients, sequence, head, begin + thread_row<Shape>() + i,
                key + thread_column() + 16 * j, dropout, change, scores[i][j], dp[i][j]);
        });
        store_scores(shared.gradients, dp);
        block_barrier();
        multiply_accumulate<Shape>(dq, shared.gradients, shared.other[0],
                                   valid_rows<Shape>(key, p.keys));
    }
    float factors[Shape::thread_rows];
    for (float& factor : factors)
        factor = p.scale;
    store_sums<T, Shape>(gradients.dq, sequence, head, begin, p.queries, p.head_dim, dq, factors,
                         gradients.accumulate);
}

template <class T, class Shape, bool with_dropout>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_multiprocessor)
    plain_keys_kernel(AttentionParams p, AttentionGradients gradients, BlockOrder order) {
    auto& shared = shared_memory<BackwardShared<Shape>>();
    const BlockPlace place = block_place(order);
    const int sequence = place.head / p.groups;
    const int group = place.head % p.groups;
    const int begin = place.tile * Shape::rows;
    const int first_query = clamped(begin - p.diagonal, 0, p.queries) / Shape::rows * Shape::rows;

    ThreadSums<Shape> dk = {};
    ThreadSums<Shape> dv = {};
    float dropout_scale = 1;
    load_rows<T>(shared.own[0], p.k, sequence, group, begin, p.keys, p.head_dim);
    load_rows<T>(shared.own[1], p.v, sequence, group, begin, p.keys, p.head_dim);
    for (int h = 0; h < p.heads_per_group(); ++h) {
        const int head = group * p.heads_per_group() + h;
        const KeyDropout dropout(p, sequence, head, draws<Shape, with_dropout>(p));
        const ScoreChange change(p, head, Shape::changed);
        dropout_scale = dropout.scale();
        for (int query = first_query; query < p.queries; query += Shape::rows) {
            block_barrier();
            load_rows<T>(shared.other[0], p.q, sequence, head, query, p.queries, p.head_dim);
            load_rows<T>(shared.other[1], gradients.d_o, sequence, head, query, p.queries,
                         p.head_dim);
            block_barrier();
            ThreadScores<Shape> scores, dp;
            multiply_transposed<Shape>(scores, shared.own[0], shared.other[0], p.head_dim);
            multiply_transposed<Shape>(dp, shared.own[1], shared.other[1], p.head_dim);
            for_each_score<Shape>([&](int i, int j) {
                pair_gradient<Shape, with_dropout>(
                    p, gradients, sequence, head, query + thread_column() + 16 * j,
                    begin + thread_row<Shape>() + i, dropout, change, scores[i][j], dp[i][j]);
            });
            store_scores(shared.probabilities, scores);
            store_scores(shared.gradients, dp);
            block_barrier();
            const int queries = valid_rows<Shape>(query, p.queries);
            multiply_accumulate<Shape>(dv, shared.probabilities, shared.other[1], queries);
            multiply_accumulate<Shape>(dk, shared.gradients, shared.other[0], queries);
        }
    }
    float factors[Shape::thread_rows];
    for (float& factor : factors)
        factor = p.scale;
    store_sums<T, Shape>(gradients.dk, sequence, group, begin, p.keys, p.head_dim, dk, factors,
                         gradients.accumulate);
    for (float& factor : factors)
        factor = dropout_scale;
    store_sums<T, Shape>(gradients.dv, sequence, group, begin, p.keys, p.head_dim, dv, factors,
                         gradients.accumulate);
}

// ---- launches -----------------------------------------------------------------------------------

/// Calls f(shape, with_dropout) for the narrowest shape that fits D.
template <class F>
void with_plain_shape(const AttentionParams& params, const F& f) {
    const auto with = [&](auto shape, auto changed) {
        if (params.changes_scores()) return f(changed, std::true_type());
        params.dropout.on() ? f(shape, std::true_type()) : f(shape, std::false_type());
    };
    if (params.head_dim <= 64) return with(PlainShape<4, 4>(), ChangedPlainShape<4, 4>());
    if (params.head_dim <= 128) return with(PlainShape<4, 8>(), ChangedPlainShape<4, 8>());
    with(PlainShape<2, 16>(), ChangedPlainShape<2, 16>());
}

}  // namespace

template <class T>
void plain_attention_forward(const AttentionParams& params, const Stream& stream) {
    with_plain_shape(params, [&](auto shape, auto with_dropout) {
        using Shape = decltype(shape);
        static_assert(shared_memory_fits<Shape, ForwardShared<Shape>>());
        const BlockOrder order =
            block_order(params, params.queries, Shape::rows, params.heads, true);
        launch(stream,
               {.blocks = order.blocks(),
                .threads = Shape::threads,
                .shared_bytes = sizeof(ForwardShared<Shape>)},
               plain_forward_kernel<T, Shape, decltype(with_dropout)::value>, params, order);
    });
}

template <class T>
void plain_attention_backward(const AttentionParams& params, const AttentionGradients& gradients,
                              const Stream& stream) {
    with_plain_shape(params, [&](auto shape, auto with_dropout) {
        using Shape = decltype(shape);
        constexpr bool drops = decltype(with_dropout)::value;
        static_assert(shared_memory_fits<Shape, BackwardShared<Shape>>());
        const auto start = [&](auto kernel, const BlockOrder& order) {
            launch(stream,
                   {.blocks = order.blocks(),
                    .threads = Shape::threads,
                    .shared_bytes = sizeof(BackwardShared<Shape>)},
                   kernel, params, gradients, order);
        };
        start(plain_queries_kernel<T, Shape, drops>,
              block_order(params, params.queries, Shape::rows, params.heads, true));
        start(plain_keys_kernel<T, Shape, drops>,
              block_order(params, params.keys, Shape::rows, params.groups, false));
    });
}

template void plain_attention_forward<float>(const AttentionParams&, const Stream&);
template void plain_attention_forward<Bf16>(const AttentionParams&, const Stream&);
template void plain_attention_forward<F16>(const AttentionParams&, const Stream&);
template void plain_attention_backward<float>(const AttentionParams&, const AttentionGradients&,
                                              const Stream&);
template void plain_attention_backward<Bf16>(const AttentionParams&, const AttentionGradients&,
                                             const Stream&);
template void plain_attention_backward<F16>(const AttentionParams&, const AttentionGradients&,
                                            const Stream&);

}  // namespace gptrain::cuda
