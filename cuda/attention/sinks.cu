#include "cuda/attention/sinks.h"

#include <limits>

#include "cuda/attention/kernels.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
/// Queries of one head per block.
constexpr int block_queries = 64;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2_e = 1.4426950408889634f;

/// T is the type of o, S that of the sinks.
template <class T, class S>
struct SinkArgs {
    HeadTensor o;  ///< [B, Sq, N, D]
    float* lse;    ///< [B, N, Sq]
    const S* sinks;
    int queries;
    int heads;
    int head_dim;
};

struct SinkShared {
    float factors[block_queries];
};

/// Adds a sink to a row's lse; returns the factor of the row's o.
__device__ inline float add_sink(float sink, float& lse) {
    if (lse == -infinity) {
        lse = sink;
        return 1;
    }
    const float smaller = exp2_approx(-absolute(sink - lse) * log2_e);
    const float larger_weight = 1.0f / (1.0f + smaller);
    const bool above = sink > lse;
    lse = (above ? sink : lse) + logarithm(1.0f + smaller);
    return above ? smaller * larger_weight : larger_weight;
}

template <class T, class S, bool aligned>
__global__ void __launch_bounds__(block_size) sink_kernel(SinkArgs<T, S> args) {
    SinkShared& shared = shared_memory<SinkShared>();
    const int head = block_index().x % args.heads;
    const int tiles = (args.queries + block_queries - 1) / block_queries;
    const int first = block_index().x / args.heads % tiles * block_queries;
    const int sequence = block_index().x / args.heads / tiles;
    const int left = args.queries - first;
    const int count = left < block_queries ? left : block_queries;
    if (thread_index() < count) {
        const std::int64_t row = std::int64_t{sequence} * args.heads + head;
        float* lse = args.lse + row * args.queries + first + thread_index();
        float sum = *lse;
        shared.factors[thread_index()] = add_sink(widen(args.sinks[head]), sum);
        *lse = sum;
    }
    block_barrier();
    const int row_pieces = (args.head_dim + piece_width<T> - 1) / piece_width<T>;
    for (int i = thread_index(); i < count * row_pieces; i += block_size) {
        const int row = i / row_pieces;
        const int at = i % row_pieces * piece_width<T>;
        T* o = args.o.template head<T>(sequence, head) + (first + row) * args.o.row_stride;
        float x[piece_width<T>];
        widen(load_piece<aligned>(o, at, args.head_dim), x);
        for (float& value : x)
            value *= shared.factors[row];
        store_piece<aligned>(o, at, args.head_dim, narrow_piece<T>(x));
    }
}

template <class T, class S>
void add_sinks(const SinkForward& op, const OpContext& context) {
    const SinkArgs<T, S> args = {.o = HeadTensor(op.o),
                                 .lse = op.lse.as<float>(),
                                 .sinks = op.sinks.as<S>(),
                                 .queries = gptrain::narrow<int>(op.o.size(1)),
                                 .heads = gptrain::narrow<int>(op.o.size(2)),
                                 .head_dim = gptrain::narrow<int>(op.o.size(3))};
    const bool aligned = aligned_16<T>(args.o) && args.head_dim % piece_width<T> == 0;
    launch(context.stream,
           {.blocks = op.o.size(0) * args.heads * div_ceil(args.queries, block_queries),
            .threads = block_size,
            .shared_bytes = sizeof(SinkShared)},
           aligned ? sink_kernel<T, S, true> : sink_kernel<T, S, false>, args);
}

template <class S>
struct SinkGradArgs {
    const float* lse;    ///< [B, N, Sq]
    const float* delta;  ///< [B, N, Sq]
    const S* sinks;
    float* dsinks;
    int sequences;
    int queries;
    int heads;
};

struct SinkGradShared {
    float sums[block_size / warp_threads];
};

/// One block per head.
template <class S>
__global__ void __launch_bounds__(block_size) sink_grad_kernel(SinkGradArgs<S> args) {
    SinkGradShared& shared = shared_memory<SinkGradShared>();
    const int head = block_index().x;
    const float sink = widen(args.sinks[head]);
    float sum = 0;
    for (int b = 0; b < args.sequences; ++b) {
        const std::int64_t row = (std::int64_t{b} * args.heads + head) * args.queries;
        for (int i = thread_index(); i < args.queries; i += block_size) {
            const float p = exp2_approx((sink - args.lse[row + i]) * log2_e);
            sum = fma(p, args.delta[row + i], sum);
        }
    }
    sum = block_sum(sum, shared.sums);
    if (thread_index() == 0) args.dsinks[head] = args.dsinks[head] - sum;
}

template <class T>
void add_sink_gradients(const SinkBackward& op, const OpContext& context) {
    AttentionParams params;
    params.o = HeadTensor(op.o);
    params.sequences = gptrain::narrow<int>(op.o.size(0));
    params.queries = gptrain::narrow<int>(op.o.size(1));
    params.heads = gptrain::narrow<int>(op.o.size(2));
    params.head_dim = gptrain::narrow<int>(op.o.size(3));
    AttentionGradients gradients;
    gradients.d_o = HeadTensor(op.d_o);
    auto* delta = context.scratch.take<float>(op.lse.elements());
    attention_delta<T>(params, gradients, delta, context.stream);
    launch(context.stream,
           {.blocks = params.heads, .threads = block_size, .shared_bytes = sizeof(SinkGradShared)},
           sink_grad_kernel<T>,
           SinkGradArgs<T>{.lse = op.lse.as<float>(),
                           .delta = delta,
                           .sinks = op.sinks.as<T>(),
                           .dsinks = op.dsinks.as<float>(),
                           .sequences = params.sequences,
                           .queries = params.queries,
                           .heads = params.heads});
}

void check(const Tensor& sinks, const Tensor& o, const Tensor& lse) {
    GPTRAIN_CHECK(
        o.rank() == 4 && (o.stride(3) == 1 || o.size(3) == 1) && sinks.elements() == o.size(2) &&
            lse.contiguous() && lse.elements() * o.size(3) == o.elements(),
        sinks.elements(), " sinks for o ", o.shape().to_text(), " and lse ", lse.shape().to_text());
}

}  // namespace

void run(const SinkForward& args, const OpContext& context) {
    check(args.sinks, args.o, args.lse);
    with_compute_type(args.sinks.dtype(), [&](auto type) {
        using S = decltype(type);
        args.o.dtype() == DType::f32 ? add_sinks<float, S>(args, context)
                                     : add_sinks<S, S>(args, context);
    });
}

void run(const SinkBackward& args, const OpContext& context) {
    check(args.sinks, args.o, args.lse);
    with_compute_type(args.sinks.dtype(),
                      [&](auto type) { add_sink_gradients<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
