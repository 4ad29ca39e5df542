#include <cmath>
#include <omp.h>

#include "cpu/attention.h"
#include "cpu/attention_tiles.h"
#include "cpu/parallel.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Memory of one thread.
struct Tiles {
    float* k;  ///< [keys][padded_dim], like v, dk and dv
    float* v;
    float* dk;
    float* dv;
    float* q;
    float* q_transposed;
    float* d_o;
    float* d_o_transposed;
    float* dq;
    float* scores;
    float* dp;
    float* factors;
    float* lse;
    float* delta;

    Tiles(Scratch& scratch, std::int64_t keys, std::int64_t dim) {
        for (float** rows : {&k, &v, &dk, &dv})
            *rows = scratch.take<float>(keys * padded_dim(dim));
        for (float** tile : {&q, &q_transposed, &d_o, &d_o_transposed, &dq})
            *tile = scratch.take<float>(tile_size * padded_dim(dim));
        for (float** tile : {&scores, &dp, &factors})
            *tile = scratch.take<float>(tile_size * tile_size);
        for (float** row : {&lse, &delta})
            *row = scratch.take<float>(tile_size);
    }
    static std::int64_t bytes(std::int64_t keys, std::int64_t dim) {
        return 4 * Scratch::bytes_of<float>(keys * padded_dim(dim)) +
               5 * Scratch::bytes_of<float>(tile_size * padded_dim(dim)) +
               3 * Scratch::bytes_of<float>(tile_size * tile_size) +
               2 * Scratch::bytes_of<float>(tile_size);
    }
};

/// Handles all heads of one query group of one sequence, so that one thread owns their dk and dv. T
/// is the compute dtype, G that of the gradients.
template <class T, class G>
class Backward {
public:
    Backward(const AttentionBackward& args, const TileKernels& kernels)
        : args_(args.forward),
          gradients_(args),
          kernels_(kernels),
          mask_(args_.dropout),
          dim_(args_.q.size(3)),
          width_(padded_dim(dim_)),
          scale_(score_scale(dim_)) {}

    void run(std::int64_t b, std::int64_t group, const Tiles& tiles) const {
        const std::int64_t keys = args_.k.size(1);
        const std::int64_t queries = args_.q.size(1);
        const std::int64_t heads = args_.q.size(2) / args_.k.size(2);
        load_tile(rows_of_head<T>(args_.k, b, group), 0, keys, dim_, tiles.k);
        load_tile(rows_of_head<T>(args_.v, b, group), 0, keys, dim_, tiles.v);
        std::fill(tiles.dk, tiles.dk + keys * width_, 0.0f);
        std::fill(tiles.dv, tiles.dv + keys * width_, 0.0f);
        for (std::int64_t head = group * heads; head < (group + 1) * heads; ++head) {
            for (std::int64_t begin = 0; begin < queries; begin += tile_size)
                run_queries({b, head, begin, std::min(tile_size, queries - begin)}, tiles);
        }
        const bool add = gradients_.accumulate;
        store_tile(tiles.dk, rows_of_head<G>(gradients_.dk, b, group), 0, keys, dim_, scale_, add);
        store_tile(tiles.dv, rows_of_head<G>(gradients_.dv, b, group), 0, keys, dim_, 1.0f, add);
    }

private:
    void run_queries(const QueryTile& at, const Tiles& tiles) const {
        start(at, tiles);
        VisibleKeys visible(args_, at.b, at.begin, at.count);
        for (std::int64_t key = visible.begin(); key < visible.end(); key += tile_size) {
            ScoreTile tile = {.scores = tiles.scores,
                              .keys = std::min(tile_size, visible.end() - key),
                              .queries = round_up(at.count, tile_unit),
                              .first = nullptr,
                              .last = nullptr,
                              .dropout = nullptr};
            visible.mask(key, tile);
            if (mask_.on()) {
                const FactorTile factors = {
                    mask_, at.b, at.head, args_.q_begin + at.begin, tile.queries, tiles.factors};
                factors.draw(args_.k_begin + key, tile.keys);
                tile.dropout = tiles.factors;
            }
            add_keys(tile, key, at.count, tiles);
        }
        store_tile(tiles.dq, rows_of_head<G>(gradients_.dq, at.b, at.head), at.begin, at.count,
                   dim_, scale_, gradients_.accumulate);
    }

    void start(const QueryTile& at, const Tiles& tiles) const {
        load_tile(rows_of_head<T>(args_.q, at.b, at.head), at.begin, at.count, dim_, tiles.q);
        transpose_tile(tiles.q, at.count, width_, tiles.q_transposed);
        load_tile(rows_of_head<T>(gradients_.d_o, at.b, at.head), at.begin, at.count, dim_,
                  tiles.d_o);
        transpose_tile(tiles.d_o, at.count, width_, tiles.d_o_transposed);
        std::fill(tiles.dq, tiles.dq + at.count * width_, 0.0f);
        std::fill(tiles.lse, tiles.lse + tile_size, infinity);
        std::fill(tiles.delta, tiles.delta + tile_size, 0.0f);

        const Rows<T> o = rows_of_head<T>(args_.o, at.b, at.head);
        const std::int64_t row = at.b * args_.q.size(2) + at.head;
        const float* lse = args_.lse.as<float>() + row * args_.q.size(1) + at.begin;
        for (std::int64_t i = 0; i < at.count; ++i) {
            Vec8 sum = 0.0f;
            const float* d_o = tiles.d_o + i * width_;
            for_vectors(0, dim_, [&](std::int64_t d, auto lanes) {
                sum = fma(Vec8::load(d_o + d), load(o[at.begin + i] + d, lanes), sum);
            });
            tiles.delta[i] = sum.sum();
            if (lse[i] != -infinity) tiles.lse[i] = lse[i];
        }
    }

    void add_keys(const ScoreTile& tile, std::int64_t key, std::int64_t queries,
                  const Tiles& tiles) const {
        const float* k = tiles.k + key * width_;
        const float* v = tiles.v + key * width_;
        kernels_.multiply(gemm_by_key(tile, dim_, k, tiles.q_transposed, scale_, tile.scores));
        kernels_.multiply(gemm_by_key(tile, dim_, v, tiles.d_o_transposed, 1, tiles.dp));
        kernels_.softmax_gradient(tile, {tiles.lse, tiles.delta, tiles.dp});

        TileGemm sums = {.a = tile.scores,
                         .a_row = tile_size,
                         .a_col = 1,
                         .b = tiles.d_o,
                         .b_row = width_,
                         .c = tiles.dv + key * width_,
                         .c_row = width_,
                         .rows = tile.keys,
                         .cols = width_,
                         .length = queries,
                         .accumulate = true};
        kernels_.multiply(sums);
        sums.a = tiles.dp;
        sums.b = tiles.q;
        sums.c = tiles.dk + key * width_;
        kernels_.multiply(sums);
        sums.a_row = 1;
        sums.a_col = tile_size;
        sums.b = k;
        sums.c = tiles.dq;
        sums.rows = queries;
        sums.length = tile.keys;
        kernels_.multiply(sums);
    }

    const AttentionForward& args_;
    const AttentionBackward& gradients_;
    const TileKernels& kernels_;
    DropoutMask mask_;
    std::int64_t dim_;
    std::int64_t width_;
    float scale_;
};

template <class T, class G>
void run_typed(const AttentionBackward& args, Scratch& scratch) {
    const std::int64_t keys = args.forward.k.size(1);
    const std::int64_t groups = args.forward.k.size(2);
    const std::int64_t dim = args.forward.q.size(3);
    const TileKernels kernels = tile_kernels(args.forward.q.dtype());
    const Backward<T, G> backward(args, kernels);
    const std::int64_t bytes = Tiles::bytes(keys, dim);
    std::byte* memory = scratch.take_bytes(bytes * omp_get_max_threads());
    parallel_items(args.forward.k.size(0) * groups, args.forward.q.size(1) * keys * dim / 4,
                   [&](std::int64_t item) {
                       Scratch own(memory + omp_get_thread_num() * bytes, bytes);
                       backward.run(item / groups, item % groups, Tiles(own, keys, dim));
                   });
}

}  // namespace

void run(const AttentionBackward& args, Scratch& scratch) {
    with_compute_type(args.forward.q.dtype(), [&](auto type) {
        using T = decltype(type);
        args.accumulate ? run_typed<T, float>(args, scratch) : run_typed<T, T>(args, scratch);
    });
}

std::int64_t attention_backward_scratch_bytes(std::int64_t keys, std::int64_t head_dim,
                                              int threads) {
    return threads * Tiles::bytes(keys, head_dim);
}

}  // namespace gptrain::cpu
