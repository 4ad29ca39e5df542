#include "cuda/ops/linear_bias.h"

#include <algorithm>

#include "cuda/device/partial_sums.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/ops/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

// ---- bias += sum of rows ------------------------------------------------------------------------

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;
/// Rows that a warp has in flight.
constexpr int rows_at_a_time = 8;
static_assert(bias_part_rows == block_warps * rows_at_a_time);

template <class T>
constexpr int strip_width = warp_threads* piece_width<T>;
static_assert(strip_width<Bf16> * sizeof(Bf16) == bias_strip_bytes);

template <class T>
struct BiasGradArgs {
    const T* dy;
    std::int64_t stride;
    int rows;
    int columns;
    float* parts;  ///< [parts][columns]
};

template <class T>
struct BiasGradShared {
    float sums[block_warps][strip_width<T>];
};

/// sums += the piece at `at` of every block_warps-th row in [row, end).
template <bool aligned, class T>
__device__ inline void add_rows(float (&sums)[piece_width<T>], const BiasGradArgs<T>& args, int row,
                                int end, int at) {
    const auto load_row = [&](int i) {
        return load_piece<aligned>(args.dy + i * args.stride, at, args.columns);
    };
    const auto add = [&](const Vec16<T>& piece) {
        float x[piece_width<T>];
        widen(piece, x);
        for (int j = 0; j < piece_width<T>; ++j)
            sums[j] = sums[j] + x[j];
    };
    if (at >= args.columns) row = end;
    for (; aligned && end - row > (rows_at_a_time - 1) * block_warps;
         row += rows_at_a_time * block_warps) {
        Vec16<T> pieces[rows_at_a_time];
        for (int i = 0; i < rows_at_a_time; ++i)
            pieces[i] = load_row(row + i * block_warps);
        for (const Vec16<T>& piece : pieces)
            add(piece);
    }
    for (; row < end; row += block_warps)
        add(load_row(row));
}

/// The block's sums of rows [begin, end) in a strip of columns that is 512 bytes wide, for each
/// column of the strip that exists; its warps take rows in turn.
template <bool aligned, class T>
__device__ inline void sum_strip(const BiasGradArgs<T>& args, int begin, int end, const auto& use) {
    BiasGradShared<T>& shared = shared_memory<BiasGradShared<T>>();
    const int in_strip = lane_index() * piece_width<T>;
    const int first = block_index().x * strip_width<T>;
    float sums[piece_width<T>] = {};
    add_rows<aligned, T>(sums, args, begin + warp_index(), end, first + in_strip);
    for (int j = 0; j < piece_width<T>; ++j)
        shared.sums[warp_index()][in_strip + j] = sums[j];
    block_barrier();
    for (int column = thread_index(); column < strip_width<T>; column += block_size) {
        if (first + column >= args.columns) break;
        use(first + column, column_sum(shared.sums, column));
    }
}

template <class T, bool aligned>
__global__ void __launch_bounds__(block_size) bias_grad_kernel(BiasGradArgs<T> args) {
    const std::int64_t part = block_index().y;
    const std::int64_t parts = grid_blocks().y;
    const auto begin = static_cast<int>(args.rows * part / parts);
    const auto end = static_cast<int>(args.rows * (part + 1) / parts);
    sum_strip<aligned>(args, begin, end, [&](int column, float sum) {
        args.parts[part * args.columns + column] = sum;
    });
}

std::int64_t bias_parts(std::int64_t rows, std::int64_t strips) {
    return std::min(div_ceil(rows, bias_part_rows),
                    std::max<std::int64_t>(bias_blocks / strips, 1));
}

template <class T>
void sum_rows(const Tensor& dy, const Tensor& dbias, const OpContext& context) {
    const Rows<T> rows(dy);
    const std::int64_t columns = dy.size(1);
    const std::int64_t strips = div_ceil(columns, strip_width<T>);
    const std::int64_t parts = bias_parts(dy.size(0), strips);
    const BiasGradArgs<T> args = {.dy = rows.data,
                                  .stride = rows.stride,
                                  .rows = static_cast<int>(dy.size(0)),
                                  .columns = static_cast<int>(columns),
                                  .parts = context.scratch.take<float>(parts * columns)};
    const bool aligned = is_aligned(rows.data, rows.stride, columns);
    launch(context.stream,
           {.blocks = strips,
            .threads = block_size,
            .shared_bytes = sizeof(BiasGradShared<T>),
            .blocks_y = parts},
           aligned ? bias_grad_kernel<T, true> : bias_grad_kernel<T, false>, args);
    add_partial_sums({.data = args.parts,
                      .count = parts,
                      .columns = columns,
                      .totals = {dbias.as<float>(), nullptr}},
                     context.stream);
}

// ---- biases of experts += sums of their rows ----------------------------------------------------

template <class T>
struct GroupedBiasArgs {
    BiasGradArgs<T> part;  ///< the first of the columns of dy
    const std::int32_t* offsets;
    int experts;
    float* dbias;  ///< [parts][experts][columns]
};

template <class T, bool aligned>
__global__ void __launch_bounds__(block_size) grouped_bias_grad_kernel(GroupedBiasArgs<T> args) {
    const auto which = static_cast<int>(block_index().y);
    const std::int32_t* rows = args.offsets + which % args.experts;
    const std::int64_t columns = args.part.columns;
    args.part.dy += which / args.experts * columns;
    float* to = args.dbias + which * columns;
    sum_strip<aligned>(args.part, load(rows), load(rows + 1),
                       [&](int column, float sum) { to[column] = to[column] + sum; });
}

template <class T>
void sum_groups(const GroupedBiasGrad& op, const OpContext& context) {
    const Rows<T> rows(op.dy);
    const std::int64_t columns = op.dbias.size(2);
    const GroupedBiasArgs<T> args = {.part = {.dy = rows.data,
                                              .stride = rows.stride,
                                              .rows = static_cast<int>(op.dy.size(0)),
                                              .columns = static_cast<int>(columns),
                                              .parts = nullptr},
                                     .offsets = op.offsets.as<std::int32_t>(),
                                     .experts = static_cast<int>(op.dbias.size(1)),
                                     .dbias = op.dbias.as<float>()};
    const bool aligned = is_aligned(rows.data, rows.stride, columns);
    launch(context.stream,
           {.blocks = div_ceil(columns, strip_width<T>),
            .threads = block_size,
            .shared_bytes = sizeof(BiasGradShared<T>),
            .blocks_y = op.dbias.size(0) * op.dbias.size(1)},
           aligned ? grouped_bias_grad_kernel<T, true> : grouped_bias_grad_kernel<T, false>, args);
}

// ---- rows += bias -------------------------------------------------------------------------------

/// Y is T or float.
template <class Y, class T>
struct AddBiasArgs {
    Y* y;
    std::int64_t stride;
    const T* bias;
    int rows;
    int columns;
};

/// As many elements of the bias as a piece of y has.
template <class Y, class T, bool aligned>
__device__ inline void load_bias(float (&bias)[piece_width<Y>], const T* from, int at, int size) {
    Vec<T, piece_width<Y>> piece = {};
    if constexpr (aligned) {
        piece = load(reinterpret_cast<const Vec<T, piece_width<Y>>*>(from + at));
    } else {
        for (int i = 0; i < piece_width<Y>; ++i) {
            if (at + i < size) piece[i] = from[at + i];
        }
    }
    for (int i = 0; i < piece_width<Y>; ++i)
        bias[i] = widen(piece[i]);
}

template <class Y, class T, bool aligned>
__global__ void __launch_bounds__(block_size) add_bias_kernel(AddBiasArgs<Y, T> args) {
    const int at = thread_piece<Y>();
    if (at >= args.columns) return;
    float bias[piece_width<Y>];
    load_bias<Y, T, aligned>(bias, args.bias, at, args.columns);
    Vec16<Y> pieces[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i) {
        const Y* row = args.y + block_row(i, args.rows) * args.stride;
        pieces[i] = load_piece_once<aligned>(row, at, args.columns);
    }
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, args.rows)) continue;
        float x[piece_width<Y>];
        widen(pieces[i], x);
        for (int j = 0; j < piece_width<Y>; ++j)
            x[j] = x[j] + bias[j];
        store_piece<aligned>(args.y + block_row(i, args.rows) * args.stride, at, args.columns,
                             narrow_piece<Y>(x));
    }
}

template <class Y, class T>
void add_to_rows(const Tensor& y, const Tensor& bias, const OpContext& context) {
    const Rows<Y> rows(y);
    const std::int64_t columns = y.size(1);
    const AddBiasArgs<Y, T> args = {.y = rows.data,
                                    .stride = rows.stride,
                                    .bias = bias.as<T>(),
                                    .rows = static_cast<int>(y.size(0)),
                                    .columns = static_cast<int>(columns)};
    const bool aligned = is_aligned(args.y, args.stride, columns) && is_aligned(args.bias, 0, 0);
    const PieceGrid grid = piece_grid(args.rows, columns, piece_width<Y>);
    launch(context.stream,
           {.blocks = grid.blocks, .threads = grid.threads, .blocks_y = grid.columns},
           aligned ? add_bias_kernel<Y, T, true> : add_bias_kernel<Y, T, false>, args);
}

}  // namespace

void check_bias(const Tensor& rows, const Tensor& bias) {
    GPTRAIN_CHECK(rows.rank() == 2 && rows.size(0) <= INT32_MAX && rows.size(1) <= INT32_MAX &&
                      bias.elements() == rows.size(1) && bias.contiguous(),
                  "bias ", bias.shape().to_text(), " of ", rows.shape().to_text());
}

void run(const BiasGrad& args, const OpContext& context) {
    check_bias(args.dy, args.dbias);
    with_compute_type(args.dy.dtype(),
                      [&](auto type) { sum_rows<decltype(type)>(args.dy, args.dbias, context); });
}

void run(const GroupedBiasGrad& args, const OpContext& context) {
    GPTRAIN_CHECK(args.dy.rank() == 2 && args.dbias.rank() == 3 && args.dbias.contiguous() &&
                      args.dy.size(1) == args.dbias.size(0) * args.dbias.size(2) &&
                      args.offsets.elements() == args.dbias.size(1) + 1 &&
                      args.dy.size(0) <= INT32_MAX && args.dy.size(1) <= INT32_MAX,
                  "rows ", args.dy.shape().to_text(), " of biases ", args.dbias.shape().to_text());
    with_compute_type(args.dy.dtype(),
                      [&](auto type) { sum_groups<decltype(type)>(args, context); });
}

void run(const AddBias& args, const OpContext& context) {
    check_bias(args.y, args.bias);
    with_compute_type(args.bias.dtype(), [&](auto type) {
        using T = decltype(type);
        args.y.dtype() == DType::f32 ? add_to_rows<float, T>(args.y, args.bias, context)
                                     : add_to_rows<T, T>(args.y, args.bias, context);
    });
}

}  // namespace gptrain::cuda
