#include "cuda/ops/rank_sum.h"

#include "cuda/device/device.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

/// Elements of runs, by their places in all runs together.
template <class T>
struct Elements {
    T* data;
    std::int64_t stride;  ///< elements between the starts of runs
    __device__ T& at(std::int64_t run, std::int64_t i) const { return data[run * stride + i]; }
};

template <class T>
struct RankSum {
    Elements<T> to;
    Elements<const T> from[most_peers] = {};
    int ranks;
    std::int64_t run;    ///< elements of a run
    std::int64_t count;  ///< of all runs
    Reduce reduce;
};

template <class T>
struct SumOf {
    using type = T;
    __device__ static T widened(T x) { return x; }
    __device__ static T rounded(T x) { return x; }
};
template <class T>
struct NarrowSumOf {
    using type = float;
    __device__ static float widened(T x) { return widen(x); }
    __device__ static T rounded(float x) { return narrow<T>(x); }
};
template <>
struct SumOf<Bf16> : NarrowSumOf<Bf16> {};
template <>
struct SumOf<F16> : NarrowSumOf<F16> {};

/// Integers wrap.
template <class T>
__device__ T sum_of(T a, T b) {
    return static_cast<T>(a + b);
}
__device__ inline std::int32_t sum_of(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
__device__ inline std::int64_t sum_of(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class T>
__global__ void __launch_bounds__(block_size) rank_sum_kernel(RankSum<T> args) {
    using Sum = SumOf<T>;
    const std::int64_t at = std::int64_t{block_index().x} * block_size + thread_index();
    if (at >= args.count) return;
    const std::int64_t run = at / args.run;
    const std::int64_t i = at % args.run;
    auto total = Sum::widened(args.from[0].at(run, i));
    for (int rank = 1; rank < args.ranks; ++rank) {
        const auto x = Sum::widened(args.from[rank].at(run, i));
        if (args.reduce == Reduce::sum) {
            total = sum_of(total, x);
        } else {
            // NaN is the maximum.
            total = total < x || x != x ? x : total;
        }
    }
    args.to.at(run, i) = Sum::rounded(total);
}

template <class T>
void reduce_typed(const ByteRuns& to, std::span<const ByteRuns> from, Reduce reduce,
                  const Stream& stream) {
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    RankSum<T> args = {.to = {reinterpret_cast<T*>(to.data), to.stride / size},
                       .ranks = static_cast<int>(from.size()),
                       .run = to.bytes / size,
                       .count = to.total() / size,
                       .reduce = reduce};
    for (std::size_t rank = 0; rank < from.size(); ++rank)
        args.from[rank] = {reinterpret_cast<const T*>(from[rank].data), from[rank].stride / size};
    launch(stream, {.blocks = div_ceil(args.count, block_size), .threads = block_size},
           rank_sum_kernel<T>, args);
}

}  // namespace

void reduce_ranks(const ByteRuns& to, std::span<const ByteRuns> from, DType dtype, Reduce reduce,
                  const Stream& stream) {
    GPTRAIN_CHECK(!from.empty() && from.size() <= most_peers, from.size(), " ranks");
    if (to.total() == 0) return;
    switch (dtype) {
        case DType::f32: return reduce_typed<float>(to, from, reduce, stream);
        case DType::bf16: return reduce_typed<Bf16>(to, from, reduce, stream);
        case DType::f16: return reduce_typed<F16>(to, from, reduce, stream);
        case DType::f64: return reduce_typed<double>(to, from, reduce, stream);
        case DType::i32: return reduce_typed<std::int32_t>(to, from, reduce, stream);
        case DType::i64: return reduce_typed<std::int64_t>(to, from, reduce, stream);
        case DType::u8: return reduce_typed<std::uint8_t>(to, from, reduce, stream);
        default: fail(ExitCode::bug, "no reduction of ", name_of(dtype));
    }
}

}  // namespace gptrain::cuda
