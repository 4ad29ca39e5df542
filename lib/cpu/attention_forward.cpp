#include <cmath>
#include <omp.h>

#include "cpu/attention.h"
#include "cpu/attention_tiles.h"
#include "cpu/few_queries.h"
#include "cpu/parallel.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Memory of one thread.
struct Tiles {
    float* q;
    float* q_transposed;
    float* k;
    float* v;
    float* o;
    float* scores;
    float* factors;
    float* maximum;
    float* sum;
    float* rescale;

    Tiles(Scratch& scratch, std::int64_t dim) {
        for (float** tile : {&q, &q_transposed, &k, &v, &o})
            *tile = scratch.take<float>(tile_size * padded_dim(dim));
        for (float** tile : {&scores, &factors})
            *tile = scratch.take<float>(tile_size * tile_size);
        for (float** row : {&maximum, &sum, &rescale})
            *row = scratch.take<float>(tile_size);
    }
    static std::int64_t bytes(std::int64_t dim) {
        return 5 * Scratch::bytes_of<float>(tile_size * padded_dim(dim)) +
               2 * Scratch::bytes_of<float>(tile_size * tile_size) +
               3 * Scratch::bytes_of<float>(tile_size);
    }
};

template <class T>
class Forward {
public:
    Forward(const AttentionForward& args, const TileKernels& kernels)
        : args_(args),
          kernels_(kernels),
          mask_(args.dropout),
          dim_(args.q.size(3)),
          scale_(score_scale(dim_)) {}

    void run(const QueryTile& at, const Tiles& tiles) const {
        const std::int64_t queries = round_up(at.count, tile_unit);
        const std::int64_t group = at.head * args_.k.size(2) / args_.q.size(2);
        const Rows<T> k = rows_of_head<T>(args_.k, at.b, group);
        const Rows<T> v = rows_of_head<T>(args_.v, at.b, group);
        start(at, tiles);
        VisibleKeys visible(args_, at.b, at.begin, at.count);
        for (std::int64_t key = visible.begin(); key < visible.end(); key += tile_size) {
            const std::int64_t keys = std::min(tile_size, visible.end() - key);
            load_tile(k, key, keys, dim_, tiles.k);
            load_tile(v, key, keys, dim_, tiles.v);
            ScoreTile tile = {tiles.scores, keys, queries, nullptr, nullptr, nullptr};
            visible.mask(key, tile);
            if (mask_.on()) {
                const FactorTile factors = {
                    mask_, at.b, at.head, args_.q_begin + at.begin, queries, tiles.factors};
                factors.draw(args_.k_begin + key, keys);
                tile.dropout = tiles.factors;
            }
            add_keys(tile, at.count, tiles);
        }
        finish(at, tiles);
    }

private:
    void start(const QueryTile& at, const Tiles& tiles) const {
        const std::int64_t width = padded_dim(dim_);
        load_tile(rows_of_head<T>(args_.q, at.b, at.head), at.begin, at.count, dim_, tiles.q);
        transpose_tile(tiles.q, at.count, width, tiles.q_transposed);
        std::fill(tiles.o, tiles.o + at.count * width, 0.0f);
        std::fill(tiles.maximum, tiles.maximum + tile_size, -infinity);
        std::fill(tiles.sum, tiles.sum + tile_size, 0.0f);
    }

    void add_keys(const ScoreTile& tile, std::int64_t count, const Tiles& tiles) const {
        const std::int64_t width = padded_dim(dim_);
        kernels_.multiply(
            gemm_by_key(tile, dim_, tiles.k, tiles.q_transposed, scale_, tile.scores));
        kernels_.softmax(tile, {tiles.maximum, tiles.sum, tiles.rescale});
        for (std::int64_t i = 0; i < count; ++i) {
            if (tiles.rescale[i] == 1) continue;
            const Vec8 factor = tiles.rescale[i];
            float* row = tiles.o + i * width;
            for (std::int64_t d = 0; d < width; d += Vec8::size)
                (Vec8::load(row + d) * factor).store(row + d);
        }
        kernels_.multiply({.a = tile.scores,
                           .a_row = 1,
                           .a_col = tile_size,
                           .b = tiles.v,
                           .b_row = width,
                           .c = tiles.o,
                           .c_row = width,
                           .rows = count,
                           .cols = width,
                           .length = tile.keys,
                           .accumulate = true});
    }

    void finish(const QueryTile& at, const Tiles& tiles) const {
        const std::int64_t width = padded_dim(dim_);
        const Rows<T> o = rows_of_head<T>(args_.o, at.b, at.head);
        const std::int64_t row = at.b * args_.q.size(2) + at.head;
        float* lse = args_.lse.as<float>() + row * args_.q.size(1) + at.begin;
        for (std::int64_t i = 0; i < at.count; ++i) {
            const bool none = tiles.maximum[i] == -infinity;
            const Vec8 factor = none ? 0.0f : 1 / tiles.sum[i];
            store_tile(tiles.o + i * width, o, at.begin + i, 1, dim_, factor, false);
            lse[i] = lse_of(tiles.maximum[i], tiles.sum[i]);
        }
    }

    const AttentionForward& args_;
    const TileKernels& kernels_;
    DropoutMask mask_;
    std::int64_t dim_;
    float scale_;
};

template <class T>
void run_tiles(const AttentionForward& args, Scratch& scratch) {
    const std::int64_t queries = args.q.size(1);
    const std::int64_t heads = args.q.size(2);
    const std::int64_t dim = args.q.size(3);
    const std::int64_t rows = args.q.size(0) * heads;
    const std::int64_t tiles_of_row = div_ceil(queries, tile_size);
    const TileKernels kernels = tile_kernels(args.q.dtype());
    const Forward<T> forward(args, kernels);
    const std::int64_t bytes = Tiles::bytes(dim);
    std::byte* memory = scratch.take_bytes(bytes * omp_get_max_threads());
    const std::int64_t cost = std::min(queries, tile_size) * args.k.size(1) * dim / 8;
    parallel_items(rows * tiles_of_row, cost, [&](std::int64_t item) {
        Scratch own(memory + omp_get_thread_num() * bytes, bytes);
        const Tiles tiles(own, dim);
        // The last queries see the most keys, so they go first.
        const std::int64_t begin = (tiles_of_row - 1 - item / rows) * tile_size;
        forward.run({.b = item % rows / heads,
                     .head = item % rows % heads,
                     .begin = begin,
                     .count = std::min(tile_size, queries - begin)},
                    tiles);
    });
}

}  // namespace

void run(const AttentionForward& args, Scratch& scratch) {
    if (has_few_queries(args)) {
        const std::int64_t bytes = few_queries_scratch_bytes(args.q.size(3));
        return attend_few_queries(args, scratch.take_bytes(bytes * omp_get_max_threads()));
    }
    with_compute_type(args.q.dtype(), [&](auto type) { run_tiles<decltype(type)>(args, scratch); });
}

std::int64_t attention_forward_scratch_bytes(std::int64_t head_dim, int threads) {
    return threads * std::max(Tiles::bytes(head_dim), few_queries_scratch_bytes(head_dim));
}

}  // namespace gptrain::cpu
