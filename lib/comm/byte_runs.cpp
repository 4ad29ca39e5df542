#include "comm/byte_runs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace gptrain {
namespace {

/// Elements summed at a time, so that the partial sum stays in the cache.
constexpr std::int64_t tile = 2048;

/// The type in which elements of type T are reduced.
template <class T>
struct AccumulatorOf {
    using type = T;
};
template <>
struct AccumulatorOf<Bf16> {
    using type = float;
};
template <>
struct AccumulatorOf<F16> {
    using type = float;
};

template <class T>
typename AccumulatorOf<T>::type widened(T x) {
    if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>) {
        return to_float(x);
    } else {
        return x;
    }
}

template <class T>
T rounded(typename AccumulatorOf<T>::type x) {
    if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>) {
        return from_float<T>(x);
    } else {
        return x;
    }
}

template <class A>
A sum_of(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
        using Wrapping = std::make_unsigned_t<A>;
        return static_cast<A>(
            static_cast<Wrapping>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b)));
    } else {
        return a + b;
    }
}

/// Propagates the first NaN.
template <class A>
A maximum_of(A a, A b) {
    return a < b || b != b ? b : a;
}

/// Reduces `count` elements from `begin` on in one run of each source.
template <class T>
void reduce_tile(T* to, std::span<const ByteRuns> from, std::int64_t run, std::int64_t begin,
                 std::int64_t count, Reduce reduce) {
    using A = typename AccumulatorOf<T>::type;
    std::array<A, tile> sum;
    const auto source = [&](const ByteRuns& runs) {
        return reinterpret_cast<const T*>(runs[run]) + begin;
    };
    const T* first = source(from[0]);
    for (std::int64_t i = 0; i < count; ++i)
        sum[static_cast<std::size_t>(i)] = widened(first[i]);
    for (const ByteRuns& runs : from.subspan(1)) {
        const T* x = source(runs);
        A* total = sum.data();
        if (reduce == Reduce::sum) {
            for (std::int64_t i = 0; i < count; ++i)
                total[i] = sum_of(total[i], widened(x[i]));
        } else {
            for (std::int64_t i = 0; i < count; ++i)
                total[i] = maximum_of(total[i], widened(x[i]));
        }
    }
    for (std::int64_t i = 0; i < count; ++i)
        to[i] = rounded<T>(sum[static_cast<std::size_t>(i)]);
}

template <class T>
void reduce_typed(const ByteRuns& to, std::span<const ByteRuns> from, Reduce reduce) {
    const std::int64_t elements = div_exact(to.bytes, sizeof(T));
    for (std::int64_t run = 0; run < to.count; ++run) {
        T* out = reinterpret_cast<T*>(to[run]);
        for (std::int64_t begin = 0; begin < elements; begin += tile)
            reduce_tile<T>(out + begin, from, run, begin, std::min(tile, elements - begin), reduce);
    }
}

}  // namespace

ByteRuns run_of(const Tensor& x) {
    GPTRAIN_CHECK(x.contiguous(), "a message of ", x.shape().to_text());
    return {x.data(), 1, x.bytes(), x.bytes()};
}

ByteRuns runs_of(const Tensor& x, int dim) {
    if (dim < 0) dim += x.rank();
    GPTRAIN_CHECK(dim >= 0 && (dim < x.rank() || x.rank() == 0), "dim ", dim, " of ",
                  x.shape().to_text());
    std::int64_t run = 1;
    for (int i = x.rank() - 1; i >= dim; --i) {
        GPTRAIN_CHECK(x.size(i) <= 1 || x.stride(i) == run || x.elements() == 0, "dim ", i, " of ",
                      x.shape().to_text(), " is not contiguous");
        run = checked_mul(run, x.size(i));
    }
    std::int64_t count = 1;
    std::int64_t stride = run;
    for (int i = dim - 1; i >= 0; --i) {
        if (x.size(i) == 1) continue;
        if (count == 1) stride = x.stride(i);
        GPTRAIN_CHECK(x.stride(i) == count * stride || x.elements() == 0, "the dims before ", dim,
                      " of ", x.shape().to_text(), " are not evenly strided");
        count = checked_mul(count, x.size(i));
    }
    const std::int64_t element = size_of(x.dtype());
    return {x.data(), count, checked_mul(run, element), checked_mul(stride, element)};
}

Tensor part_of(const Tensor& x, int dim, int index, int parts) {
    if (dim < 0) dim += x.rank();
    const std::int64_t size = div_exact(x.size(dim), parts);
    return x.slice(dim, index * size, size);
}

ByteRuns share_of(const Tensor& x, int index, int parts) {
    const std::int64_t most = div_ceil(x.elements(), parts);
    const std::int64_t begin = std::min(index * most, x.elements());
    const std::int64_t bytes = (std::min(begin + most, x.elements()) - begin) * size_of(x.dtype());
    return {x.data() + begin * size_of(x.dtype()), 1, bytes, bytes};
}

void copy_runs(const ByteRuns& to, const ByteRuns& from) {
    GPTRAIN_CHECK(to.count == from.count && to.bytes == from.bytes, to.count, " runs of ", to.bytes,
                  " bytes from ", from.count, " of ", from.bytes);
    if (to.data == from.data || to.total() == 0) return;
    for (std::int64_t run = 0; run < to.count; ++run)
        std::memcpy(to[run], from[run], static_cast<std::size_t>(to.bytes));
}

void reduce_runs(const ByteRuns& to, std::span<const ByteRuns> from, DType dtype, Reduce reduce) {
    for (const ByteRuns& runs : from) {
        GPTRAIN_CHECK(runs.count == to.count && runs.bytes == to.bytes, to.count, " runs of ",
                      to.bytes, " bytes from ", runs.count, " of ", runs.bytes);
    }
    switch (dtype) {
        case DType::f32: return reduce_typed<float>(to, from, reduce);
        case DType::bf16: return reduce_typed<Bf16>(to, from, reduce);
        case DType::f16: return reduce_typed<F16>(to, from, reduce);
        case DType::f64: return reduce_typed<double>(to, from, reduce);
        case DType::i32: return reduce_typed<std::int32_t>(to, from, reduce);
        case DType::i64: return reduce_typed<std::int64_t>(to, from, reduce);
        case DType::u8: return reduce_typed<std::uint8_t>(to, from, reduce);
        default: fail(ExitCode::bug, "no reduction of ", name_of(dtype));
    }
}

}  // namespace gptrain
