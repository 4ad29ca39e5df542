#include "cuda/ops/values.h"

#include <algorithm>
#include <bit>

#include "cuda/device/pieces.cuh"
#include "cuda/ops/flat_pieces.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

// ---- fill ---------------------------------------------------------------------------------------

template <class V>
__global__ void __launch_bounds__(flat_block_size) fill_kernel(V* to, std::int64_t count, V value) {
    for (int i = 0; i < flat_unroll; ++i) {
        const std::int64_t at = first_piece() + i * flat_block_size;
        if (at < count) store(to + at, value);
    }
}

template <class E>
void fill_with(const Tensor& x, E value, const OpContext& context) {
    constexpr int width = 16 / static_cast<int>(sizeof(E));
    using Piece = Vec<E, width>;
    E* data = reinterpret_cast<E*>(x.data());
    const bool aligned = reinterpret_cast<std::uintptr_t>(data) % sizeof(Piece) == 0;
    const std::int64_t pieces = aligned ? x.elements() / width : 0;
    if (pieces > 0) {
        Piece piece = {};
        for (E& element : piece.values)
            element = value;
        launch_pieces(pieces, fill_kernel<Piece>, context, reinterpret_cast<Piece*>(data), pieces,
                      piece);
    }
    const std::int64_t rest = x.elements() - pieces * width;
    if (rest > 0) {
        launch_pieces(rest, fill_kernel<E>, context, data + pieces * width, rest, value);
    }
}

// ---- cast ---------------------------------------------------------------------------------------

/// Elements that a thread converts at a time.
constexpr int cast_width = 8;

/// Eight elements starting at `at`, in accesses of at most 16 bytes.
template <class T>
struct CastPiece {
    static constexpr int width = std::min(cast_width, piece_width<T>);
    Vec<T, width> parts[cast_width / width];
    __device__ T& operator[](int i) { return parts[i / width][i % width]; }
};

template <class T>
__device__ inline CastPiece<T> load_piece(const T* from) {
    using Piece = CastPiece<T>;
    Piece piece;
    for (int i = 0; i < cast_width / Piece::width; ++i) {
        piece.parts[i] =
            load_once(reinterpret_cast<const Vec<T, Piece::width>*>(from + i * Piece::width));
    }
    return piece;
}
template <class T>
__device__ inline void store_piece(T* to, const CastPiece<T>& piece) {
    using Piece = CastPiece<T>;
    for (int i = 0; i < cast_width / Piece::width; ++i)
        store(reinterpret_cast<Vec<T, Piece::width>*>(to + i * Piece::width), piece.parts[i]);
}

template <class To, class From>
__global__ void __launch_bounds__(block_size)
    cast_kernel(To* to, const From* from, std::int64_t count, bool aligned) {
    const std::int64_t at =
        (std::int64_t{block_index().x} * block_size + thread_index()) * std::int64_t{cast_width};
    if (!aligned || at + cast_width > count) {
        for (std::int64_t i = at; i < std::min(at + cast_width, count); ++i)
            to[i] = narrow<To>(widen(from[i]));
        return;
    }
    CastPiece<From> source = load_piece(from + at);
    CastPiece<To> target;
    for (int i = 0; i < cast_width; ++i)
        target[i] = narrow<To>(widen(source[i]));
    store_piece(to + at, target);
}

// ---- add ----------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size)
    add_kernel(T* x, const T* y, std::int64_t count, bool aligned) {
    const std::int64_t at =
        (std::int64_t{block_index().x} * block_size + thread_index()) * std::int64_t{cast_width};
    if (!aligned || at + cast_width > count) {
        for (std::int64_t i = at; i < std::min(at + cast_width, count); ++i)
            x[i] = narrow<T>(widen(x[i]) + widen(y[i]));
        return;
    }
    CastPiece<T> sum = load_piece(x + at);
    CastPiece<T> added = load_piece(y + at);
    for (int i = 0; i < cast_width; ++i)
        sum[i] = narrow<T>(widen(sum[i]) + widen(added[i]));
    store_piece(x + at, sum);
}

// ---- sum of rows --------------------------------------------------------------------------------

/// A thread sums some adjacent columns.
template <class To, class T>
__global__ void __launch_bounds__(block_size)
    sum_rows_kernel(To* to, const T* rows, std::int64_t count, std::int64_t width, bool aligned) {
    const std::int64_t at =
        (std::int64_t{block_index().x} * block_size + thread_index()) * std::int64_t{cast_width};
    if (!aligned || at + cast_width > width) {
        for (std::int64_t i = at; i < std::min(at + cast_width, width); ++i) {
            float sum = widen(rows[i]);
            for (std::int64_t row = 1; row < count; ++row)
                sum = sum + widen(rows[row * width + i]);
            to[i] = narrow<To>(sum);
        }
        return;
    }
    float sums[cast_width];
    CastPiece<T> source = load_piece(rows + at);
    for (int i = 0; i < cast_width; ++i)
        sums[i] = widen(source[i]);
    for (std::int64_t row = 1; row < count; ++row) {
        source = load_piece(rows + row * width + at);
        for (int i = 0; i < cast_width; ++i)
            sums[i] = sums[i] + widen(source[i]);
    }
    CastPiece<To> rounded;
    for (int i = 0; i < cast_width; ++i)
        rounded[i] = narrow<To>(sums[i]);
    store_piece(to + at, rounded);
}

template <class To, class T>
void launch_sum_rows(const SumRows& args, const OpContext& context) {
    const std::int64_t width = args.rows.size(1);
    const bool aligned = reinterpret_cast<std::uintptr_t>(args.to.data()) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(args.rows.data()) % 16 == 0 &&
                         width % cast_width == 0;
    launch(
        context.stream,
        {.blocks = div_ceil(width, std::int64_t{block_size} * cast_width), .threads = block_size},
        sum_rows_kernel<To, T>, args.to.as<To>(), args.rows.as<T>(), args.rows.size(0), width,
        aligned);
}

}  // namespace

void run(const Fill& args, const OpContext& context) {
    GPTRAIN_CHECK(args.x.contiguous(), "fill of ", args.x.shape().to_text());
    if (std::bit_cast<std::uint32_t>(args.value) == 0) {
        set_bytes(args.x.data(), 0, args.x.bytes(), context.stream);
        return;
    }
    switch (args.x.dtype()) {
        case DType::f64: fill_with(args.x, static_cast<double>(args.value), context); break;
        case DType::i32: fill_with(args.x, static_cast<std::int32_t>(args.value), context); break;
        case DType::i64: fill_with(args.x, static_cast<std::int64_t>(args.value), context); break;
        case DType::u8:
            set_bytes(args.x.data(), static_cast<std::uint8_t>(args.value), args.x.bytes(),
                      context.stream);
            break;
        default:
            with_compute_type(args.x.dtype(), [&](auto type) {
                fill_with(args.x, from_float<decltype(type)>(args.value), context);
            });
    }
}

void run(const Cast& args, const OpContext& context) {
    GPTRAIN_CHECK(args.to.elements() == args.from.elements() && args.to.contiguous() &&
                      args.from.contiguous(),
                  "cast of ", args.from.shape().to_text(), " to ", args.to.shape().to_text());
    with_compute_type(args.from.dtype(), [&](auto from_type) {
        with_compute_type(args.to.dtype(), [&](auto to_type) {
            using From = decltype(from_type);
            using To = decltype(to_type);
            const bool aligned = reinterpret_cast<std::uintptr_t>(args.to.data()) % 16 == 0 &&
                                 reinterpret_cast<std::uintptr_t>(args.from.data()) % 16 == 0;
            launch(context.stream,
                   {.blocks = div_ceil(args.to.elements(), std::int64_t{block_size} * cast_width),
                    .threads = block_size},
                   cast_kernel<To, From>, args.to.as<To>(), args.from.as<From>(),
                   args.to.elements(), aligned);
        });
    });
}

void run(const Add& args, const OpContext& context) {
    GPTRAIN_CHECK(args.x.shape() == args.y.shape() && args.x.contiguous() && args.y.contiguous(),
                  "sum of ", args.x.shape().to_text(), " and ", args.y.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const bool aligned = reinterpret_cast<std::uintptr_t>(args.x.data()) % 16 == 0 &&
                             reinterpret_cast<std::uintptr_t>(args.y.data()) % 16 == 0;
        launch(context.stream,
               {.blocks = div_ceil(args.x.elements(), std::int64_t{block_size} * cast_width),
                .threads = block_size},
               add_kernel<T>, args.x.as<T>(), args.y.as<T>(), args.x.elements(), aligned);
    });
}

void run(const SumRows& args, const OpContext& context) {
    GPTRAIN_CHECK(
        args.rows.rank() == 2 && args.rows.contiguous() && args.to.elements() == args.rows.size(1),
        "sum of the rows of ", args.rows.shape().to_text(), " to ", args.to.shape().to_text());
    with_compute_type(args.rows.dtype(), [&](auto type) {
        using T = decltype(type);
        if (args.to.dtype() == DType::f32) return launch_sum_rows<float, T>(args, context);
        launch_sum_rows<T, T>(args, context);
    });
}

}  // namespace gptrain::cuda
