#include <type_traits>

#include "cuda/device/partial_sums.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/norm/norm.h"
#include "cuda/norm/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 32 * head_norm_warps;
constexpr int max_dim = 256;
/// Heads that a warp has in flight.
constexpr int heads_at_a_time = 4;
/// 16-byte pieces of a head on one lane.
template <class T>
constexpr int lane_pieces = max_dim / piece_width<T> / warp_threads;

/// The heads of a tensor [T, heads, D], counted token by token.
template <class T>
struct Heads {
    T* data;
    std::int64_t token_stride;
    std::int64_t head_stride;

    __device__ T* at(std::int64_t index, int heads) const {
        return data + index / heads * token_stride + index % heads * head_stride;
    }
};

struct Sizes {
    std::int64_t count;  ///< T x heads
    int heads;           ///< of a token
    int dim;
    float inverse_dim;
    float eps;
};

/// One lane's part of a head: pieces lane, lane + 32, ...
template <class T, bool aligned>
struct LanePart {
    float x[lane_pieces<T>][piece_width<T>] = {};

    __device__ static int at(int i) { return (lane_index() + i * warp_threads) * piece_width<T>; }

    /// Zeros past the end.
    __device__ void load(const T* head, int dim) {
        unrolled<lane_pieces<T>>([&](int i) {
            if (at(i) < dim) widen(load_piece<aligned>(head, at(i), dim), x[i]);
        });
    }
    __device__ void store(T* head, int dim) const {
        unrolled<lane_pieces<T>>([&](int i) {
            if (at(i) < dim) store_piece<aligned>(head, at(i), dim, narrow_piece<T>(x[i]));
        });
    }
    /// f(i, j) for each of its elements.
    template <class F>
    __device__ static void for_each(const F& f) {
        unrolled<lane_pieces<T>>([&](int i) {
            for (int j = 0; j < piece_width<T>; ++j)
                f(i, j);
        });
    }
    /// The sum over the head of x times other.x, on all lanes.
    __device__ float dot(const LanePart& other) const {
        float sum = 0;
        for_each([&](int i, int j) { sum = fma(x[i][j], other.x[i][j], sum); });
        return warp_sum(sum);
    }
    __device__ float rstd(const Sizes& sizes) const {
        return 1.0f / square_root(fma(dot(*this), sizes.inverse_dim, sizes.eps));
    }
};

// ---- forward ------------------------------------------------------------------------------------

template <class T>
struct ForwardArgs {
    Heads<const T> x;
    Heads<T> y;
    const T* weight;
    Sizes sizes;
};

template <class T, bool aligned>
__global__ void __launch_bounds__(block_size) head_norm_forward_kernel(ForwardArgs<T> args) {
    const Sizes& sizes = args.sizes;
    const std::int64_t warp = block_index().x * std::int64_t{head_norm_warps} + warp_index();
    const std::int64_t first = warp * heads_at_a_time;
    if (first >= sizes.count) return;
    using Part = LanePart<T, aligned>;
    Part weight;
    weight.load(args.weight, sizes.dim);
    Part parts[heads_at_a_time];
    unrolled<heads_at_a_time>([&](int h) {
        // Clamp to the last head, so that loads are unconditional and can be grouped.
        const std::int64_t index = first + h < sizes.count ? first + h : sizes.count - 1;
        parts[h].load(args.x.at(index, sizes.heads), sizes.dim);
    });
    unrolled<heads_at_a_time>([&](int h) {
        Part& part = parts[h];
        const float rstd = part.rstd(sizes);
        Part::for_each([&](int i, int j) { part.x[i][j] = part.x[i][j] * rstd * weight.x[i][j]; });
        if (first + h < sizes.count) part.store(args.y.at(first + h, sizes.heads), sizes.dim);
    });
}

// ---- backward -----------------------------------------------------------------------------------

template <class T>
struct BackwardArgs {
    Heads<const T> dy;
    Heads<const T> x;
    Heads<T> dx;
    const T* weight;
    float* parts;  ///< [blocks][D] of dweight
    Sizes sizes;
};

struct BackwardShared {
    float sums[head_norm_warps][max_dim];
};

/// A block's warps take its heads in turn.
template <class T, bool aligned>
__global__ void __launch_bounds__(block_size) head_norm_backward_kernel(BackwardArgs<T> args) {
    const Sizes& sizes = args.sizes;
    const std::int64_t block = block_index().x;
    const std::int64_t blocks = grid_blocks().x;
    const std::int64_t end = sizes.count * (block + 1) / blocks;
    using Part = LanePart<T, aligned>;
    Part weight;
    weight.load(args.weight, sizes.dim);
    Part dweight;
    for (std::int64_t index = sizes.count * block / blocks + warp_index(); index < end;
         index += head_norm_warps) {
        Part x;
        Part g;
        x.load(args.x.at(index, sizes.heads), sizes.dim);
        g.load(args.dy.at(index, sizes.heads), sizes.dim);
        const float rstd = x.rstd(sizes);
        Part::for_each([&](int i, int j) {
            x.x[i][j] = x.x[i][j] * rstd;
            dweight.x[i][j] = fma(g.x[i][j], x.x[i][j], dweight.x[i][j]);
            g.x[i][j] = g.x[i][j] * weight.x[i][j];
        });
        const float projection = g.dot(x) * sizes.inverse_dim;
        Part::for_each(
            [&](int i, int j) { g.x[i][j] = rstd * (g.x[i][j] - x.x[i][j] * projection); });
        g.store(args.dx.at(index, sizes.heads), sizes.dim);
    }
    BackwardShared& shared = shared_memory<BackwardShared>();
    Part::for_each(
        [&](int i, int j) { shared.sums[warp_index()][Part::at(i) + j] = dweight.x[i][j]; });
    block_barrier();
    for (int i = thread_index(); i < sizes.dim; i += block_size) {
        args.parts[block * sizes.dim + i] = column_sum(shared.sums, i);
    }
}

// ---- launch -------------------------------------------------------------------------------------

template <class T>
Heads<T> heads_of(const Tensor& x) {
    return {x.as<std::remove_const_t<T>>(), x.stride(0), x.stride(1)};
}

template <class T>
bool is_aligned(const Heads<T>& heads, std::int64_t dim) {
    return cuda::is_aligned(heads.data, heads.token_stride, dim) &&
           heads.head_stride % piece_width<std::remove_const_t<T>> == 0;
}

Sizes sizes_of(const Tensor& x, float eps) {
    GPTRAIN_CHECK(x.rank() == 3 && (x.stride(2) == 1 || x.size(2) == 1) && x.size(2) <= max_dim &&
                      x.size(1) <= INT32_MAX,
                  "norm of heads ", x.shape().to_text());
    return {.count = x.size(0) * x.size(1),
            .heads = static_cast<int>(x.size(1)),
            .dim = static_cast<int>(x.size(2)),
            .inverse_dim = 1 / static_cast<float>(x.size(2)),
            .eps = eps};
}

template <class T>
void forward(const HeadNormForward& op, const OpContext& context) {
    const ForwardArgs<T> args = {.x = heads_of<const T>(op.x),
                                 .y = heads_of<T>(op.y),
                                 .weight = op.weight.as<T>(),
                                 .sizes = sizes_of(op.x, op.eps)};
    const std::int64_t dim = args.sizes.dim;
    const bool aligned = is_aligned(args.x, dim) && is_aligned(args.y, dim) &&
                         cuda::is_aligned(args.weight, dim, dim);
    launch(context.stream,
           {.blocks = div_ceil(args.sizes.count, std::int64_t{head_norm_warps} * heads_at_a_time),
            .threads = block_size},
           aligned ? head_norm_forward_kernel<T, true> : head_norm_forward_kernel<T, false>, args);
}

template <class T>
void backward(const HeadNormBackward& op, const OpContext& context) {
    const Sizes sizes = sizes_of(op.x, op.eps);
    const std::int64_t parts =
        head_norm_parts(sizes.count, norm_blocks(context.device, sizeof(BackwardShared)));
    const BackwardArgs<T> args = {.dy = heads_of<const T>(op.dy),
                                  .x = heads_of<const T>(op.x),
                                  .dx = heads_of<T>(op.dx),
                                  .weight = op.weight.as<T>(),
                                  .parts = context.scratch.take<float>(parts * sizes.dim),
                                  .sizes = sizes};
    const bool aligned = is_aligned(args.dy, sizes.dim) && is_aligned(args.x, sizes.dim) &&
                         is_aligned(args.dx, sizes.dim) &&
                         cuda::is_aligned(args.weight, sizes.dim, sizes.dim);
    launch(context.stream,
           {.blocks = parts, .threads = block_size, .shared_bytes = sizeof(BackwardShared)},
           aligned ? head_norm_backward_kernel<T, true> : head_norm_backward_kernel<T, false>,
           args);
    add_partial_sums({.data = args.parts,
                      .count = parts,
                      .columns = sizes.dim,
                      .totals = {pointer_or_null<float>(op.dweight), nullptr}},
                     context.stream);
}

}  // namespace

void run(const HeadNormForward& args, const OpContext& context) {
    with_compute_type(args.x.dtype(), [&](auto type) { forward<decltype(type)>(args, context); });
}

void run(const HeadNormBackward& args, const OpContext& context) {
    with_compute_type(args.x.dtype(), [&](auto type) { backward<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
