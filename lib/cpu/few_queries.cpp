#include "cpu/few_queries.h"

#include <algorithm>
#include <cmath>
#include <omp.h>
#include <optional>
#include <type_traits>

#include "cpu/attention_tiles.h"
#include "cpu/parallel.h"
#include "cpu/row_products.h"
#include "cpu/vector_math.h"

namespace gptrain::cpu {
namespace {

constexpr std::int64_t few_queries = 4;
/// Keys whose scores are held at a time; they and their values stay in the first cache.
constexpr std::int64_t block_size = 64;
/// Heads of a group that share these reads.
constexpr std::int64_t heads_at_once = 4;

/// Keys whose products with a query are computed together.
constexpr int keys_at_once = 4;

/// Requests `count` elements of a row, into L2: L1 can wait for too few lines at a time.
template <class T>
void prefetch(const T* row, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 64 / static_cast<std::int64_t>(sizeof(T)))
        _mm_prefetch(row + i, _MM_HINT_T1);
}

/// o (of `vectors` vectors) = rescale o + sum of weights[j] values[j]. Requests as much of `next`,
/// which is read next.
template <int vectors, class T>
void add_values(const Rows<T>& values, const Rows<T>& next, std::int64_t count,
                const float* weights, Vec8 rescale, float* o) {
    Vec8 sums[vectors];
    for (std::int64_t i = 0; i < vectors; ++i)
        sums[i] = Vec8::load(o + i * Vec8::size) * rescale;
    for (std::int64_t j = 0; j < count; ++j) {
        prefetch(next[j], vectors * Vec8::size);
        const Vec8 weight(weights[j]);
        for (std::int64_t i = 0; i < vectors; ++i)
            sums[i] = fma(weight, load(values[j] + i * Vec8::size, Full()), sums[i]);
    }
    for (std::int64_t i = 0; i < vectors; ++i)
        sums[i].store(o + i * Vec8::size);
}

/// The change of a query's scores before the softmax (AttentionForward).
struct ScoreCurve {
    float softcap = 0;
    float slope = 0;

    bool on() const { return softcap > 0 || slope > 0; }
    /// Changes the scores of `count` keys, of which the first is `distance` behind the query.
    void change(std::int64_t count, std::int64_t distance, float* scores) const {
        alignas(32) static constexpr float lanes[] = {0, 1, 2, 3, 4, 5, 6, 7};
        for (std::int64_t j = 0; j < count; j += Vec8::size) {
            Vec8 score = Vec8::load(scores + j);
            if (softcap > 0) score = Vec8(softcap) * tanh(score * Vec8(1 / softcap));
            const Vec8 behind = Vec8(static_cast<float>(distance - j)) - Vec8::load(lanes);
            fnma(Vec8(slope), behind, score).store(scores + j);
        }
    }
};

/// Attention of one query of one head over the keys so far, with the running softmax of tiles.
template <class T>
class Query {
public:
    /// `o` is memory for padded_dim(dim) floats.
    Query(T* q, std::int64_t dim, float scale, const ScoreCurve& curve, float* o)
        : dim_(dim), scale_(scale), curve_(curve), o_(o) {
        q_.data = q;
        std::fill(o, o + padded_dim(dim), 0.0f);
    }

    /// Adds `count` keys, at most block_size, which were requested before; the first is `distance`
    /// behind the query.
    void add(const Rows<T>& keys, const Rows<T>& values, std::int64_t count,
             std::int64_t distance) {
        alignas(32) float scores[block_size];
        score(keys, values, count, scores);
        if (curve_.on()) {
            curve_.change(count, distance, scores);
            hide_from(count, scores);
        }
        const float rescale = softmax(count, scores);
        const Rows<T> next = rows_from(keys, block_size);
        std::int64_t d = 0;
        const auto add = [&](auto vectors) {
            add_values<vectors>(columns(values, d), columns(next, d), count, scores, rescale,
                                o_ + d);
            d += vectors * Vec8::size;
        };
        while (d + 64 <= dim_)
            add(std::integral_constant<int, 8>());
        while (d + 16 <= dim_)
            add(std::integral_constant<int, 2>());
        for_vectors(d, dim_, [&](std::int64_t i, auto lanes) {
            Vec8 sum = Vec8::load(o_ + i) * Vec8(rescale);
            for (std::int64_t j = 0; j < count; ++j)
                sum = fma(Vec8(scores[j]), load(values[j] + i, lanes), sum);
            sum.store(o_ + i);
        });
    }

    /// Writes the result and returns its lse.
    float finish(T* o) const {
        const Vec8 factor = maximum_ == -infinity ? 0.0f : 1 / sum_;
        for_vectors(0, dim_, [&](std::int64_t d, auto lanes) {
            store(o + d, Vec8::load(o_ + d) * factor, lanes);
        });
        return lse_of(maximum_, sum_);
    }

private:
    static Rows<T> columns(Rows<T> rows, std::int64_t begin) {
        rows.data += begin;
        return rows;
    }

    /// Scores of the keys, then -infinity up to the end of the last vector. Requests the values,
    /// which are needed next.
    void score(const Rows<T>& keys, const Rows<T>& values, std::int64_t count,
               float* scores) const {
        std::int64_t j = 0;
        const auto products = [&](auto others) {
            for (int o = 0; o < others; ++o)
                prefetch(values[j + o], dim_);
            RowProducts<Vec8, 1, others> sums;
            sums.add(q_, rows_from(keys, j), 0, dim_, [](std::int64_t) {});
            for (int o = 0; o < others; ++o)
                scores[j + o] = scale_ * sums.of[0][o].sum();
            j += others;
        };
        while (j + keys_at_once <= count)
            products(std::integral_constant<int, keys_at_once>());
        while (j < count)
            products(std::integral_constant<int, 1>());
        hide_from(count, scores);
    }

    static void hide_from(std::int64_t count, float* scores) {
        std::fill(scores + count, scores + round_up(count, Vec8::size), -infinity);
    }

    /// Replaces scores by their weights; returns the factor for earlier sums.
    float softmax(std::int64_t count, float* scores) {
        Vec8 largest(maximum_);
        for (std::int64_t j = 0; j < count; j += Vec8::size)
            largest = max(largest, Vec8::load(scores + j));
        const float maximum = largest.maximum();
        const float base = maximum == -infinity ? 0.0f : maximum;
        Vec8 sum = 0.0f;
        for (std::int64_t j = 0; j < count; j += Vec8::size) {
            const Vec8 weight = exp(Vec8::load(scores + j) - Vec8(base));
            weight.store(scores + j);
            sum = sum + weight;
        }
        const float rescale = std::exp(maximum_ - base);
        maximum_ = maximum;
        sum_ = sum_ * rescale + sum.sum();
        return rescale;
    }

    Rows<T> q_;
    std::int64_t dim_;
    float scale_;
    ScoreCurve curve_;
    float* o_;
    float maximum_ = -infinity;
    float sum_ = 0;
};

template <class T>
class Attention {
public:
    explicit Attention(const AttentionForward& args)
        : args_(args), scale_(score_scale(args.q.size(3))) {}

    /// Query `i` of sequence `b` in `heads` heads from `head` on, which share a group.
    void run(std::int64_t b, std::int64_t i, std::int64_t head, std::int64_t heads,
             float* memory) const {
        const std::int64_t dim = args_.q.size(3);
        const std::int64_t group = head * args_.k.size(2) / args_.q.size(2);
        const Rows<T> keys = rows_of_head<T>(args_.k, b, group);
        const Rows<T> values = rows_of_head<T>(args_.v, b, group);
        const auto row = [&](const Tensor& x, std::int64_t h) {
            return rows_of_head<T>(x, b, head + h)[i];
        };
        std::optional<Query<T>> queries[heads_at_once];
        for (std::int64_t h = 0; h < heads; ++h)
            queries[h].emplace(row(args_.q, h), dim, scale_, curve(head + h),
                               memory + h * padded_dim(dim));
        const KeyRange seen = keys_seen(args_, b, i);
        for (std::int64_t key = seen.begin; key < std::min(seen.begin + block_size, seen.end);
             ++key)
            prefetch(keys[key], dim);
        for (std::int64_t key = seen.begin; key < seen.end; key += block_size) {
            const std::int64_t count = std::min(block_size, seen.end - key);
            for (std::int64_t h = 0; h < heads; ++h)
                queries[h]->add(rows_from(keys, key), rows_from(values, key), count,
                                args_.q_begin + i - args_.k_begin - key);
        }
        for (std::int64_t h = 0; h < heads; ++h) {
            args_.lse.as<float>()[(b * args_.q.size(2) + head + h) * args_.q.size(1) + i] =
                queries[h]->finish(row(args_.o, h));
        }
    }

private:
    ScoreCurve curve(std::int64_t head) const {
        return {args_.softcap, args_.alibi.on() ? args_.alibi.slope(head) : 0};
    }

    const AttentionForward& args_;
    float scale_;
};

template <class T>
void attend(const AttentionForward& args, std::byte* scratch) {
    const std::int64_t queries = args.q.size(1);
    const std::int64_t groups = args.k.size(2);
    const std::int64_t heads_of_group = args.q.size(2) / groups;
    const std::int64_t rows = args.q.size(0) * queries * groups;
    // Heads share reads if there is work for all threads.
    const std::int64_t heads = rows < omp_get_max_threads() ? 1 : heads_at_once;
    const std::int64_t parts = div_ceil(heads_of_group, heads);
    const std::int64_t bytes = few_queries_scratch_bytes(args.q.size(3));
    const Attention<T> attention(args);
    const std::int64_t cost = 2 * heads * args.k.size(1) * args.q.size(3) / Vec8::size;
    parallel_items(rows * parts, cost, [&](std::int64_t item) {
        const std::int64_t row = item / parts;
        const std::int64_t head = item % parts * heads;
        attention.run(row / groups / queries, row / groups % queries,
                      row % groups * heads_of_group + head, std::min(heads, heads_of_group - head),
                      reinterpret_cast<float*>(scratch + omp_get_thread_num() * bytes));
    });
}

}  // namespace

bool has_few_queries(const AttentionForward& args) {
    return args.q.size(1) <= few_queries && args.dropout.probability == 0;
}

void attend_few_queries(const AttentionForward& args, std::byte* scratch) {
    with_compute_type(args.q.dtype(), [&](auto type) { attend<decltype(type)>(args, scratch); });
}

std::int64_t few_queries_scratch_bytes(std::int64_t head_dim) {
    return heads_at_once * padded_dim(head_dim) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace gptrain::cpu
