#include <omp.h>

#include "cpu/attention.h"
#include "cpu/attention_tiles.h"
#include "cpu/few_queries.h"
#include "cpu/fp8.h"
#include "cpu/parallel.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Tiles of queries that share the tiles of keys and values: each of these is loaded and packed
/// once for all of them.
constexpr std::int64_t tiles_at_once = 4;

/// Memory for a tile of queries.
struct QueryMemory {
    float* q_transposed;
    float* o;
    float* maximum;
    float* sum;
};

/// Memory of one thread.
struct ForwardMemory {
    float* q;
    float* k;
    float* v;
    float* scores;
    float* packed_scores;
    float* factors;
    float* rescale;
    QueryMemory queries[tiles_at_once];

    ForwardMemory(Scratch& scratch, std::int64_t dim) {
        for (float** tile : {&q, &k, &v})
            *tile = scratch.take<float>(tile_size * padded_dim(dim));
        for (float** tile : {&scores, &packed_scores, &factors})
            *tile = scratch.take<float>(tile_size * tile_size);
        rescale = scratch.take<float>(tile_size);
        for (QueryMemory& own : queries) {
            own.q_transposed = scratch.take<float>(tile_size * padded_dim(dim));
            own.o = scratch.take<float>(tile_size * padded_dim(dim));
            own.maximum = scratch.take<float>(tile_size);
            own.sum = scratch.take<float>(tile_size);
        }
    }
    static std::int64_t bytes(std::int64_t dim) {
        return (3 + 2 * tiles_at_once) * Scratch::bytes_of<float>(tile_size * padded_dim(dim)) +
               3 * Scratch::bytes_of<float>(tile_size * tile_size) +
               (1 + 2 * tiles_at_once) * Scratch::bytes_of<float>(tile_size);
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
          width_(padded_dim(dim_)),
          scale_(score_scale(dim_)) {}

    /// Handles queries [begin, begin + count) of a head, up to tiles_at_once tiles.
    void run(std::int64_t b, std::int64_t head, std::int64_t begin, std::int64_t count,
             const ForwardMemory& memory) const {
        const std::int64_t tiles = div_ceil(count, tile_size);
        const std::int64_t group = head * args_.k.size(2) / args_.q.size(2);
        Queries queries[tiles_at_once];
        std::int64_t first = args_.k.size(1);
        std::int64_t end = 0;
        for (std::int64_t i = 0; i < tiles; ++i) {
            const std::int64_t at = begin + i * tile_size;
            queries[i] = start({b, head, at, std::min(tile_size, begin + count - at)}, i, memory);
            const VisibleKeys& visible = queries[i].visible;
            if (visible.begin() < visible.end()) first = std::min(first, visible.begin());
            end = std::max(end, visible.end());
        }
        for (std::int64_t key = first; key < end; key += tile_size) {
            const Keys keys = load(b, group, key, std::min(tile_size, end - key), memory);
            for (std::int64_t i = 0; i < tiles; ++i) {
                const VisibleKeys& visible = queries[i].visible;
                if (visible.begin() <= key && key < visible.end())
                    add_keys(queries[i], keys, memory);
            }
        }
        for (std::int64_t i = 0; i < tiles; ++i)
            finish(queries[i]);
    }

private:
    /// A tile of queries in progress.
    struct Queries {
        QueryTile at;
        VisibleKeys visible;
        TileOperand q_transposed;
        QueryMemory memory;
    };
    /// A tile of keys and their values.
    struct Keys {
        std::int64_t begin;
        TileOperand k;
        TileOperand v;
    };

    Queries start(const QueryTile& at, std::int64_t index, const ForwardMemory& memory) const {
        const QueryMemory& own = memory.queries[index];
        const TileOperand q = left_operand(
            kernels_, tile_of_head<T>(args_.q, at.b, at.head, at.begin, at.count), memory.q);
        std::fill(own.o, own.o + at.count * width_, 0.0f);
        std::fill(own.maximum, own.maximum + tile_size, -infinity);
        std::fill(own.sum, own.sum + tile_size, 0.0f);
        return {at, VisibleKeys(args_, at.b, at.begin, at.count),
                transposed_operand(q, at.count, own.q_transposed), own};
    }

    Keys load(std::int64_t b, std::int64_t group, std::int64_t key, std::int64_t count,
              const ForwardMemory& memory) const {
        const auto tile = [&](const Tensor& x) { return tile_of_head<T>(x, b, group, key, count); };
        return {key, left_operand(kernels_, tile(args_.k), memory.k),
                right_operand(kernels_, tile(args_.v), memory.v)};
    }

    void add_keys(Queries& own, const Keys& keys, const ForwardMemory& memory) const {
        const QueryTile& at = own.at;
        const ScoreTile tile =
            score_tile(args_, mask_, at, own.visible, keys.begin, memory.scores, memory.factors);
        kernels_.multiply(gemm_by_key(tile, dim_, keys.k, own.q_transposed, scale_, tile.scores));
        if (args_.changes_scores()) kernels_.change(tile, score_change(args_, at, keys.begin));
        kernels_.softmax(tile, {own.memory.maximum, own.memory.sum, memory.rescale});
        for (std::int64_t i = 0; i < at.count; ++i) {
            if (memory.rescale[i] == 1) continue;
            const Vec8 factor = memory.rescale[i];
            float* row = own.memory.o + i * width_;
            for (std::int64_t d = 0; d < width_; d += Vec8::size)
                (Vec8::load(row + d) * factor).store(row + d);
        }
        kernels_.multiply({.a = kernels_.left({tile.scores, 1, tile_size}, at.count, tile.keys,
                                              memory.packed_scores),
                           .b = keys.v,
                           .c = own.memory.o,
                           .c_row = width_,
                           .rows = at.count,
                           .cols = width_,
                           .length = tile.keys,
                           .accumulate = true});
    }

    void finish(const Queries& own) const {
        const QueryTile& at = own.at;
        const Rows<T> o = rows_of_head<T>(args_.o, at.b, at.head);
        const std::int64_t row = at.b * args_.q.size(2) + at.head;
        float* lse = args_.lse.as<float>() + row * args_.q.size(1) + at.begin;
        for (std::int64_t i = 0; i < at.count; ++i) {
            const float maximum = own.memory.maximum[i];
            const float sum = own.memory.sum[i];
            const Vec8 factor = maximum == -infinity ? 0.0f : 1 / sum;
            store_tile(own.memory.o + i * width_, o, at.begin + i, 1, dim_, factor, false);
            lse[i] = lse_of(maximum, sum);
        }
    }

    const AttentionForward& args_;
    const TileKernels& kernels_;
    DropoutMask mask_;
    std::int64_t dim_;
    std::int64_t width_;
    float scale_;
};

template <class T>
void run_tiles(const AttentionForward& args, Scratch& scratch) {
    const std::int64_t queries = args.q.size(1);
    const std::int64_t heads = args.q.size(2);
    const std::int64_t dim = args.q.size(3);
    const std::int64_t rows = args.q.size(0) * heads;
    const std::int64_t threads = omp_get_max_threads();
    const TileKernels kernels = tile_kernels(args.q.dtype());
    const Forward<T> forward(args, kernels);
    const std::int64_t bytes = ForwardMemory::bytes(dim);
    std::byte* memory = scratch.take_bytes(bytes * threads);
    // Enough parts for every thread matter more than large parts.
    const std::int64_t tiles = std::clamp<std::int64_t>(
        rows * div_ceil(queries, tile_size) / (4 * threads), 1, tiles_at_once);
    const std::int64_t part = tiles * tile_size;
    const std::int64_t parts = div_ceil(queries, part);
    const std::int64_t cost = std::min(queries, part) * args.k.size(1) * dim / 8;
    parallel_items(rows * parts, cost, [&](std::int64_t item) {
        Scratch own(memory + omp_get_thread_num() * bytes, bytes);
        // The last queries see the most keys, so they go first.
        const std::int64_t begin = (parts - 1 - item / rows) * part;
        forward.run(item % rows / heads, item % rows % heads, begin,
                    std::min(part, queries - begin), ForwardMemory(own, dim));
    });
}

void attend(const AttentionForward& args, Scratch& scratch) {
    if (has_few_queries(args)) {
        const std::int64_t bytes = few_queries_scratch_bytes(args.q.size(3));
        return attend_few_queries(args, scratch.take_bytes(bytes * omp_get_max_threads()));
    }
    with_compute_type(args.q.dtype(), [&](auto type) { run_tiles<decltype(type)>(args, scratch); });
}

}  // namespace

void run(const AttentionForward& args, Scratch& scratch) {
    attend(args, scratch);
    args.each_of_amax([&](const Tensor& x) { run(UpdateAmax{.x = x, .amax = args.amax}); });
    if (!args.o8.empty()) run(ToFp8Rows{.x = rows_of_heads(args.o), .out = args.o8});
}

std::int64_t attention_forward_scratch_bytes(std::int64_t head_dim, int threads) {
    return threads * std::max(ForwardMemory::bytes(head_dim), few_queries_scratch_bytes(head_dim));
}

}  // namespace gptrain::cpu
