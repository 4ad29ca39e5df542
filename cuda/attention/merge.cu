#include "cuda/attention/merge.h"

#include <limits>

#include "cuda/device/pieces.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
/// Queries of one head per block: enough pieces to keep its threads busy, and whole cache lines of
/// lse that no other block touches.
constexpr int block_queries = 64;
/// Pieces that a thread has in flight.
constexpr int unroll = 4;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Distances, in elements, between consecutive indices of a dim.
struct Strides {
    std::int64_t sequence;
    std::int64_t query;
    std::int64_t head;
};

Strides strides_of(const Tensor& x) {
    return {x.stride(0), x.stride(1), x.stride(2)};
}

template <class T>
struct MergeArgs {
    const T* o;
    const float* lse;  ///< [B, N, Sq]
    float* o_sum;
    float* lse_sum;
    Strides o_strides;
    Strides sum_strides;
    std::int64_t lse_sequence_stride;  ///< stride of lse_sum
    std::int64_t lse_head_stride;
    int queries;
    int heads;
    int head_dim;
    bool accumulate;
};

/// The weights of the two sides in the merged row, and the merged log-sum-exp.
struct MergeWeights {
    float sum;
    float added;
    float lse;
};

__device__ inline MergeWeights merge_weights(float sum, float added) {
    constexpr float log2_e = 1.4426950408889634f;
    if (sum == -infinity) return {0, 1, added};
    if (added == -infinity) return {1, 0, sum};
    const float smaller = exp2_approx(-absolute(sum - added) * log2_e);
    const float larger_weight = 1.0f / (1.0f + smaller);
    const float smaller_weight = smaller * larger_weight;
    const float lse = (sum < added ? added : sum) + logarithm(1.0f + smaller);
    if (sum < added) return {smaller_weight, larger_weight, lse};
    return {larger_weight, smaller_weight, lse};
}

/// The elements of o_sum for one piece of o: one or two fp32 pieces.
template <class T>
struct SumPiece {
    static constexpr int parts = piece_width<T> / piece_width<float>;
    Vec16<float> values[parts];
    __device__ float& operator[](int i) {
        return values[i / piece_width<float>][i % piece_width<float>];
    }
};

template <bool aligned, class T>
__device__ inline SumPiece<T> load_sum(const float* row, int at, int size) {
    SumPiece<T> sum = {};
    for (int i = 0; i < SumPiece<T>::parts; ++i)
        sum.values[i] = load_piece<aligned>(row, at + i * piece_width<float>, size);
    return sum;
}
template <bool aligned, class T>
__device__ inline void store_sum(float* row, int at, int size, const SumPiece<T>& sum) {
    for (int i = 0; i < SumPiece<T>::parts; ++i)
        store_piece<aligned>(row, at + i * piece_width<float>, size, sum.values[i]);
}

struct MergeShared {
    float sum_weights[block_queries];
    float added_weights[block_queries];
};

/// A block's queries, from one head of one sequence.
template <class T>
struct BlockRows {
    const T* o;
    float* o_sum;
    std::int64_t first;  ///< index among all queries
    int count;
    std::int64_t sequence;
    std::int64_t head;

    /// Consecutive blocks take consecutive heads, whose rows are adjacent in memory.
    __device__ explicit BlockRows(const MergeArgs<T>& args) {
        const std::int64_t block = block_index().x;
        const std::int64_t tiles = (args.queries + block_queries - 1) / block_queries;
        head = block % args.heads;
        sequence = block / args.heads / tiles;
        first = block / args.heads % tiles * block_queries;
        const std::int64_t left = args.queries - first;
        count = left < block_queries ? static_cast<int>(left) : block_queries;
        const auto at = [&](const Strides& strides) {
            return sequence * strides.sequence + first * strides.query + head * strides.head;
        };
        o = args.o + at(args.o_strides);
        o_sum = args.o_sum + at(args.sum_strides);
    }
};

template <class T>
__device__ inline void merge_lse(const MergeArgs<T>& args, const BlockRows<T>& rows,
                                 MergeShared& shared) {
    const int i = thread_index();
    if (i >= rows.count) return;
    const float added =
        args.lse[(rows.sequence * args.heads + rows.head) * args.queries + rows.first + i];
    float* sum = args.lse_sum + rows.sequence * args.lse_sequence_stride +
                 rows.head * args.lse_head_stride + rows.first + i;
    const MergeWeights weights = merge_weights(args.accumulate ? *sum : -infinity, added);
    *sum = weights.lse;
    shared.sum_weights[i] = weights.sum;
    shared.added_weights[i] = weights.added;
}

/// The place of piece i of a thread's pieces in flight, which start at `begin`. One past the last
/// of the block's pieces is replaced by the first, so that loads are unconditional and read nothing
/// that another thread writes.
struct PiecePlace {
    int row;
    int at;
    bool valid;

    __device__ PiecePlace(int begin, int i, int pieces, int row_pieces, int width)
        : valid(begin + i * block_size < pieces) {
        const int index = valid ? begin + i * block_size : begin;
        row = index / row_pieces;
        at = index % row_pieces * width;
    }
};

template <class T, bool aligned>
__global__ void __launch_bounds__(block_size) merge_kernel(MergeArgs<T> args) {
    MergeShared& shared = shared_memory<MergeShared>();
    const BlockRows<T> rows(args);
    merge_lse(args, rows, shared);
    block_barrier();
    const int row_pieces = (args.head_dim + piece_width<T> - 1) / piece_width<T>;
    const int pieces = rows.count * row_pieces;
    for (int begin = thread_index(); begin < pieces; begin += block_size * unroll) {
        Vec16<T> added[unroll];
        SumPiece<T> sums[unroll];
        for (int i = 0; i < unroll; ++i) {
            const PiecePlace place(begin, i, pieces, row_pieces, piece_width<T>);
            added[i] = load_piece_once<aligned>(rows.o + place.row * args.o_strides.query, place.at,
                                                args.head_dim);
            sums[i] = {};
            if (args.accumulate) {
                sums[i] = load_sum<aligned, T>(rows.o_sum + place.row * args.sum_strides.query,
                                               place.at, args.head_dim);
            }
        }
        for (int i = 0; i < unroll; ++i) {
            const PiecePlace place(begin, i, pieces, row_pieces, piece_width<T>);
            if (!place.valid) continue;
            float x[piece_width<T>];
            widen(added[i], x);
            const float kept = shared.sum_weights[place.row];
            const float weight = shared.added_weights[place.row];
            for (int j = 0; j < piece_width<T>; ++j)
                sums[i][j] = fma(x[j], weight, sums[i][j] * kept);
            store_sum<aligned, T>(rows.o_sum + place.row * args.sum_strides.query, place.at,
                                  args.head_dim, sums[i]);
        }
    }
}

/// True if all rows consist of whole pieces aligned to 16 bytes.
bool is_aligned(const Tensor& x, std::int64_t width) {
    bool result = reinterpret_cast<std::uintptr_t>(x.data()) % 16 == 0 && x.size(3) % width == 0;
    for (int dim = 0; dim < 3; ++dim)
        result = result && x.stride(dim) % width == 0;
    return result;
}

template <class T>
void merge(const MergeAttention& op, const OpContext& context) {
    const MergeArgs<T> args = {.o = op.o.as<T>(),
                               .lse = op.lse.as<float>(),
                               .o_sum = op.o_sum.as<float>(),
                               .lse_sum = op.lse_sum.as<float>(),
                               .o_strides = strides_of(op.o),
                               .sum_strides = strides_of(op.o_sum),
                               .lse_sequence_stride = op.lse_sum.stride(0),
                               .lse_head_stride = op.lse_sum.stride(1),
                               .queries = gptrain::narrow<int>(op.o.size(1)),
                               .heads = gptrain::narrow<int>(op.o.size(2)),
                               .head_dim = gptrain::narrow<int>(op.o.size(3)),
                               .accumulate = op.accumulate};
    const bool aligned = is_aligned(op.o, piece_width<T>) && is_aligned(op.o_sum, piece_width<T>);
    launch(context.stream,
           {.blocks = op.o.size(0) * args.heads * div_ceil(args.queries, block_queries),
            .threads = block_size,
            .shared_bytes = sizeof(MergeShared)},
           aligned ? merge_kernel<T, true> : merge_kernel<T, false>, args);
}

}  // namespace

void run(const MergeAttention& args, const OpContext& context) {
    GPTRAIN_CHECK(args.o.rank() == 4 && args.o.shape() == args.o_sum.shape() &&
                      args.o.stride(3) == 1 && args.o_sum.stride(3) == 1,
                  "merging o ", args.o.shape().to_text(), " into ", args.o_sum.shape().to_text());
    const Shape rows = {args.o.size(0), args.o.size(2), args.o.size(1)};
    GPTRAIN_CHECK(args.lse.shape() == rows && args.lse_sum.shape() == rows &&
                      args.lse.contiguous() && args.lse_sum.stride(2) == 1,
                  "merging lse ", args.lse.shape().to_text(), " into ",
                  args.lse_sum.shape().to_text());
    with_compute_type(args.o.dtype(), [&](auto type) { merge<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
