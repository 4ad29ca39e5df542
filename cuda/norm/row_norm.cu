#include "cuda/device/partial_sums.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/norm/norm.h"
#include "cuda/norm/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

/// Rows of `width` elements.
template <class T>
struct RowsOf {
    T* data;
    std::int64_t stride;
    __device__ T* row(std::int64_t t) const { return data + t * stride; }
};

template <class T>
RowsOf<T> rows_of(const Tensor& x) {
    return {x.as<std::remove_const_t<T>>(), x.stride(0)};
}

template <class T>
bool is_aligned(const RowsOf<T>& rows, std::int64_t width) {
    return cuda::is_aligned(rows.data, rows.stride, width);
}

// ---- dots ---------------------------------------------------------------------------------------

constexpr int dot_warps = 8;

template <class T>
struct DotArgs {
    RowsOf<const T> x;
    RowsOf<const T> z;
    const T* weight;  ///< null: ones
    float* dots;
    int tokens;
    int width;
};

/// A warp reads a row.
template <class T, bool aligned>
__global__ void __launch_bounds__(32 * dot_warps) row_dots_kernel(DotArgs<T> args) {
    const std::int64_t token = block_index().x * std::int64_t{dot_warps} + warp_index();
    if (token >= args.tokens) return;
    float sum = 0;
    for (int at = lane_index() * piece_width<T>; at < args.width;
         at += warp_threads * piece_width<T>) {
        float x[piece_width<T>];
        float z[piece_width<T>];
        widen(load_piece<aligned>(args.x.row(token), at, args.width), x);
        widen(load_piece<aligned>(args.z.row(token), at, args.width), z);
        if (args.weight != nullptr) {
            float weight[piece_width<T>];
            widen(load_piece<aligned>(args.weight, at, args.width), weight);
            for (int i = 0; i < piece_width<T>; ++i)
                z[i] = z[i] * weight[i];
        }
        for (int i = 0; i < piece_width<T>; ++i)
            sum = fma(x[i], z[i], sum);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) args.dots[token] = sum;
}

template <class T>
void dots(const RowDots& op, const OpContext& context) {
    const DotArgs<T> args = {.x = rows_of<const T>(op.x),
                             .z = rows_of<const T>(op.z),
                             .weight = pointer_or_null<T>(op.weight),
                             .dots = op.dots.as<float>(),
                             .tokens = static_cast<int>(op.x.size(0)),
                             .width = static_cast<int>(op.x.size(1))};
    const bool aligned = is_aligned(args.x, args.width) && is_aligned(args.z, args.width) &&
                         cuda::is_aligned(args.weight, args.width, args.width);
    launch(context.stream,
           {.blocks = div_ceil(std::int64_t{args.tokens}, std::int64_t{dot_warps}),
            .threads = 32 * dot_warps},
           aligned ? row_dots_kernel<T, true> : row_dots_kernel<T, false>, args);
}

// ---- forward ------------------------------------------------------------------------------------

/// 1 / root mean square of a row.
struct Statistics {
    const float* squares;
    float inverse_width;
    float eps;
    __device__ float rstd(std::int64_t token) const {
        return 1.0f / square_root(fma(squares[token], inverse_width, eps));
    }
};

Statistics statistics_of(const RowNormForward& op) {
    return {op.squares.as<float>(), 1 / static_cast<float>(op.width), op.eps};
}

template <class T>
struct ForwardArgs {
    RowsOf<const T> x;
    RowsOf<T> y;
    const T* weight;
    Statistics statistics;
    int tokens;
    int width;
};

template <class T, bool aligned>
__global__ void __launch_bounds__(256) row_norm_forward_kernel(ForwardArgs<T> args) {
    const int at = thread_piece<T>();
    if (at >= args.width) return;
    float weight[piece_width<T>];
    widen(load_piece<aligned>(args.weight, at, args.width), weight);
    Vec16<T> pieces[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i)
        pieces[i] = load_piece<aligned>(args.x.row(block_row(i, args.tokens)), at, args.width);
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, args.tokens)) continue;
        const std::int64_t token = block_row(i, args.tokens);
        const float rstd = args.statistics.rstd(token);
        float x[piece_width<T>];
        widen(pieces[i], x);
        for (int j = 0; j < piece_width<T>; ++j)
            x[j] = x[j] * rstd * weight[j];
        store_piece<aligned>(args.y.row(token), at, args.width, narrow_piece<T>(x));
    }
}

template <class T>
void forward(const RowNormForward& op, const OpContext& context) {
    const ForwardArgs<T> args = {.x = rows_of<const T>(op.x),
                                 .y = rows_of<T>(op.y),
                                 .weight = op.weight.as<T>(),
                                 .statistics = statistics_of(op),
                                 .tokens = static_cast<int>(op.x.size(0)),
                                 .width = static_cast<int>(op.x.size(1))};
    const bool aligned = is_aligned(args.x, args.width) && is_aligned(args.y, args.width) &&
                         cuda::is_aligned(args.weight, args.width, args.width);
    const PieceGrid grid = piece_grid(args.tokens, args.width, piece_width<T>);
    launch(context.stream,
           {.blocks = grid.blocks, .threads = grid.threads, .blocks_y = grid.columns},
           aligned ? row_norm_forward_kernel<T, true> : row_norm_forward_kernel<T, false>, args);
}

// ---- backward -----------------------------------------------------------------------------------

template <class T>
struct BackwardArgs {
    RowsOf<const T> x;
    RowsOf<const T> dy;
    RowsOf<T> dx;
    const T* weight;
    const float* dots;
    float* parts;  ///< [blocks][W] of dweight
    Statistics statistics;
    int tokens;
    int width;
};

/// A thread has a piece of the columns in its block's share of the rows.
template <class T, bool aligned>
__global__ void __launch_bounds__(256) row_norm_backward_kernel(BackwardArgs<T> args) {
    const int at = thread_piece<T>();
    if (at >= args.width) return;
    const std::int64_t block = block_index().x;
    const std::int64_t blocks = grid_blocks().x;
    const std::int64_t end = std::int64_t{args.tokens} * (block + 1) / blocks;
    float weight[piece_width<T>];
    widen(load_piece<aligned>(args.weight, at, args.width), weight);
    float dweight[piece_width<T>] = {};
    for (std::int64_t token = std::int64_t{args.tokens} * block / blocks; token < end; ++token) {
        const float rstd = args.statistics.rstd(token);
        const float projection = rstd * args.dots[token] * args.statistics.inverse_width;
        float x[piece_width<T>];
        float g[piece_width<T>];
        widen(load_piece<aligned>(args.x.row(token), at, args.width), x);
        widen(load_piece<aligned>(args.dy.row(token), at, args.width), g);
        for (int i = 0; i < piece_width<T>; ++i) {
            x[i] = x[i] * rstd;
            dweight[i] = fma(g[i], x[i], dweight[i]);
            g[i] = rstd * (g[i] * weight[i] - x[i] * projection);
        }
        store_piece<aligned>(args.dx.row(token), at, args.width, narrow_piece<T>(g));
    }
    for (int i = 0; i < piece_width<T>; ++i) {
        if (at + i < args.width) args.parts[block * args.width + at + i] = dweight[i];
    }
}

template <class T>
void backward(const RowNormBackward& op, const OpContext& context) {
    const std::int64_t tokens = op.dy.size(0);
    const std::int64_t width = op.dy.size(1);
    const std::int64_t parts = row_norm_parts(tokens, norm_blocks(context.device, 0));
    const BackwardArgs<T> args = {.x = rows_of<const T>(op.forward.x),
                                  .dy = rows_of<const T>(op.dy),
                                  .dx = rows_of<T>(op.dx),
                                  .weight = op.forward.weight.as<T>(),
                                  .dots = op.dots.as<float>(),
                                  .parts = context.scratch.take<float>(parts * width),
                                  .statistics = statistics_of(op.forward),
                                  .tokens = static_cast<int>(tokens),
                                  .width = static_cast<int>(width)};
    const bool aligned = is_aligned(args.x, width) && is_aligned(args.dy, width) &&
                         is_aligned(args.dx, width) && cuda::is_aligned(args.weight, width, width);
    const PieceGrid grid = piece_grid(1, width, piece_width<T>);
    launch(context.stream, {.blocks = parts, .threads = grid.threads, .blocks_y = grid.columns},
           aligned ? row_norm_backward_kernel<T, true> : row_norm_backward_kernel<T, false>, args);
    add_partial_sums({.data = args.parts,
                      .count = parts,
                      .columns = width,
                      .totals = {pointer_or_null<float>(op.dweight), nullptr}},
                     context.stream);
}

void check_rows(const Tensor& x, const Tensor& y) {
    GPTRAIN_CHECK(x.rank() == 2 && x.shape() == y.shape() && x.size(0) <= INT32_MAX &&
                      x.size(1) <= INT32_MAX && (x.stride(1) == 1 || x.size(1) == 1) &&
                      (y.stride(1) == 1 || y.size(1) == 1),
                  "norm of rows ", x.shape().to_text(), " and ", y.shape().to_text());
}

}  // namespace

void run(const RowDots& args, const OpContext& context) {
    check_rows(args.x, args.z);
    with_compute_type(args.x.dtype(), [&](auto type) { dots<decltype(type)>(args, context); });
}

void run(const RowNormForward& args, const OpContext& context) {
    check_rows(args.x, args.y);
    with_compute_type(args.x.dtype(), [&](auto type) { forward<decltype(type)>(args, context); });
}

void run(const RowNormBackward& args, const OpContext& context) {
    check_rows(args.forward.x, args.dx);
    with_compute_type(args.dy.dtype(), [&](auto type) { backward<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
