#include <omp.h>

#include "cpu/attention.h"
#include "cpu/attention_tiles.h"
#include "cpu/fp8.h"
#include "cpu/parallel.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// A tile of keys and their values as operands.
struct Keys {
    RowOperands k;
    TileOperand v;  ///< left
};

/// A tile of queries, or of their gradient, as right operands.
struct Queries {
    TileOperand rows;        ///< [queries][dim]
    TileOperand transposed;  ///< [dim][queries]
};

/// Rows of memory for this many keys: an odd number packed as both operands takes that of one more.
std::int64_t key_rows(std::int64_t keys) {
    return round_up(keys, 2);
}

/// Memory of one thread.
struct BackwardMemory {
    float* k;  ///< operands of all keys: [key_rows][padded_dim], like v, dk and dv
    float* v;
    float* dk;
    float* dv;
    Keys* keys;  ///< of each tile
    float* q;
    float* q_transposed;
    float* d_o;
    float* d_o_transposed;
    float* dq;
    float* scores;
    float* dp;
    float* packed_scores;
    float* factors;
    float* lse;
    float* delta;

    BackwardMemory(Scratch& scratch, std::int64_t key_count, std::int64_t dim) {
        for (float** rows : {&k, &v, &dk, &dv})
            *rows = scratch.take<float>(key_rows(key_count) * padded_dim(dim));
        keys = scratch.take<Keys>(div_ceil(key_count, tile_size));
        for (float** tile : {&q, &q_transposed, &d_o, &d_o_transposed, &dq})
            *tile = scratch.take<float>(tile_size * padded_dim(dim));
        for (float** tile : {&scores, &dp, &packed_scores, &factors})
            *tile = scratch.take<float>(tile_size * tile_size);
        for (float** row : {&lse, &delta})
            *row = scratch.take<float>(tile_size);
    }
    static std::int64_t bytes(std::int64_t key_count, std::int64_t dim) {
        return 4 * Scratch::bytes_of<float>(key_rows(key_count) * padded_dim(dim)) +
               Scratch::bytes_of<Keys>(div_ceil(key_count, tile_size)) +
               5 * Scratch::bytes_of<float>(tile_size * padded_dim(dim)) +
               4 * Scratch::bytes_of<float>(tile_size * tile_size) +
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

    void run(std::int64_t b, std::int64_t group, const BackwardMemory& memory) const {
        const std::int64_t keys = args_.k.size(1);
        const std::int64_t queries = args_.q.size(1);
        const std::int64_t heads = args_.q.size(2) / args_.k.size(2);
        for (std::int64_t key = 0; key < keys; key += tile_size) {
            memory.keys[key / tile_size] =
                load_keys(b, group, key, std::min(tile_size, keys - key), memory);
        }
        std::fill(memory.dk, memory.dk + keys * width_, 0.0f);
        std::fill(memory.dv, memory.dv + keys * width_, 0.0f);
        for (std::int64_t head = group * heads; head < (group + 1) * heads; ++head) {
            for (std::int64_t begin = 0; begin < queries; begin += tile_size)
                run_queries({b, head, begin, std::min(tile_size, queries - begin)}, memory);
        }
        const bool add = gradients_.accumulate;
        store_tile(memory.dk, rows_of_head<G>(gradients_.dk, b, group), 0, keys, dim_, scale_, add);
        store_tile(memory.dv, rows_of_head<G>(gradients_.dv, b, group), 0, keys, dim_, 1.0f, add);
    }

private:
    Keys load_keys(std::int64_t b, std::int64_t group, std::int64_t key, std::int64_t count,
                   const BackwardMemory& memory) const {
        const auto tile = [&](const Tensor& x) { return tile_of_head<T>(x, b, group, key, count); };
        return {row_operands(kernels_, tile(args_.k), memory.k + key * width_),
                left_operand(kernels_, tile(args_.v), memory.v + key * width_)};
    }

    void run_queries(const QueryTile& at, const BackwardMemory& memory) const {
        const Queries q = load_queries(args_.q, at, memory.q, memory.q_transposed);
        const Queries d_o = load_queries(gradients_.d_o, at, memory.d_o, memory.d_o_transposed);
        start(at, memory);
        VisibleKeys visible(args_, at.b, at.begin, at.count);
        for (std::int64_t key = visible.begin(); key < visible.end(); key += tile_size) {
            const ScoreTile tile =
                score_tile(args_, mask_, at, visible, key, memory.scores, memory.factors);
            add_keys(tile, at, key, q, d_o, memory);
        }
        store_tile(memory.dq, rows_of_head<G>(gradients_.dq, at.b, at.head), at.begin, at.count,
                   dim_, scale_, gradients_.accumulate);
    }

    /// Makes a tile of `rows` an operand in `own`, and its transpose one in `own_transposed`.
    Queries load_queries(const Tensor& rows, const QueryTile& at, float* own,
                         float* own_transposed) const {
        const RowOperands operands =
            row_operands(kernels_, tile_of_head<T>(rows, at.b, at.head, at.begin, at.count), own);
        return {operands.right, transposed_operand(operands.left, at.count, own_transposed)};
    }

    /// Clears dq, and finds lse and delta.
    void start(const QueryTile& at, const BackwardMemory& memory) const {
        std::fill(memory.dq, memory.dq + at.count * width_, 0.0f);
        std::fill(memory.lse, memory.lse + tile_size, infinity);
        std::fill(memory.delta, memory.delta + tile_size, 0.0f);

        const Rows<T> o = rows_of_head<T>(args_.o, at.b, at.head);
        const Rows<T> d_o = rows_of_head<T>(gradients_.d_o, at.b, at.head);
        const std::int64_t row = at.b * args_.q.size(2) + at.head;
        const float* lse = args_.lse.as<float>() + row * args_.q.size(1) + at.begin;
        for (std::int64_t i = 0; i < at.count; ++i) {
            Vec8 sum = 0.0f;
            for_vectors(0, dim_, [&](std::int64_t d, auto lanes) {
                sum =
                    fma(load(d_o[at.begin + i] + d, lanes), load(o[at.begin + i] + d, lanes), sum);
            });
            memory.delta[i] = sum.sum();
            if (lse[i] != -infinity) memory.lse[i] = lse[i];
        }
    }

    void add_keys(const ScoreTile& tile, const QueryTile& at, std::int64_t key, const Queries& q,
                  const Queries& d_o, const BackwardMemory& memory) const {
        const std::int64_t count = at.count;
        const Keys& keys = memory.keys[key / tile_size];
        kernels_.multiply(gemm_by_key(tile, dim_, keys.k.left, q.transposed, scale_, tile.scores));
        kernels_.multiply(gemm_by_key(tile, dim_, keys.v, d_o.transposed, 1, memory.dp));
        // Memory of a packed operand, which is made later.
        float* slopes = memory.packed_scores;
        if (args_.changes_scores()) kernels_.change(tile, score_change(args_, at, key, slopes));
        kernels_.softmax_gradient(tile, {memory.lse, memory.delta, memory.dp});
        if (args_.softcap > 0) times_slopes(tile, slopes, memory.dp);
        add_by_key(tile.scores, tile.keys, d_o.rows, count, memory.dv + key * width_, memory);
        add_by_key(memory.dp, tile.keys, q.rows, count, memory.dk + key * width_, memory);
        kernels_.multiply(
            {.a = kernels_.left({memory.dp, 1, tile_size}, count, tile.keys, memory.packed_scores),
             .b = keys.k.right,
             .c = memory.dq,
             .c_row = width_,
             .rows = count,
             .cols = width_,
             .length = tile.keys,
             .accumulate = true});
    }

    /// The gradient of capped scores becomes that of the scores before.
    static void times_slopes(const ScoreTile& tile, const float* slopes, float* d_scores) {
        for (std::int64_t key = 0; key < tile.keys; ++key) {
            for (std::int64_t i = 0; i < tile.queries; i += Vec8::size) {
                float* at = d_scores + key * tile_size + i;
                (Vec8::load(at) * Vec8::load(slopes + key * tile_size + i)).store(at);
            }
        }
    }

    /// sums [keys][dim] += scores [keys][queries] rows
    void add_by_key(const float* scores, std::int64_t keys, const TileOperand& rows,
                    std::int64_t count, float* sums, const BackwardMemory& memory) const {
        kernels_.multiply(
            {.a = kernels_.left({scores, tile_size, 1}, keys, count, memory.packed_scores),
             .b = rows,
             .c = sums,
             .c_row = width_,
             .rows = keys,
             .cols = width_,
             .length = count,
             .accumulate = true});
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
    const std::int64_t bytes = BackwardMemory::bytes(keys, dim);
    std::byte* memory = scratch.take_bytes(bytes * omp_get_max_threads());
    parallel_items(args.forward.k.size(0) * groups, args.forward.q.size(1) * keys * dim / 4,
                   [&](std::int64_t item) {
                       Scratch own(memory + omp_get_thread_num() * bytes, bytes);
                       backward.run(item / groups, item % groups, BackwardMemory(own, keys, dim));
                   });
}

}  // namespace

void run(const AttentionBackward& args, Scratch& scratch) {
    with_compute_type(args.forward.q.dtype(), [&](auto type) {
        using T = decltype(type);
        args.accumulate ? run_typed<T, float>(args, scratch) : run_typed<T, T>(args, scratch);
    });
    args.each_of_amax([&](const Tensor& x) { run(UpdateAmax{.x = x, .amax = args.amax}); });
}

std::int64_t attention_backward_scratch_bytes(std::int64_t keys, std::int64_t head_dim,
                                              int threads) {
    return threads * BackwardMemory::bytes(keys, head_dim);
}

}  // namespace gptrain::cpu
