#include "cuda/ops/memory.h"

#include <algorithm>
#include <bit>

#include "cuda/device/pieces.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
/// Pieces that a thread has in flight.
constexpr int unroll = 4;

/// Index of a thread's first piece; its others follow at a distance of block_size. A block handles
/// block_size * unroll pieces.
__device__ inline std::int64_t first_piece() {
    return std::int64_t{block_index().x} * block_size * unroll + thread_index();
}

template <class Kernel, class... Args>
void launch_pieces(std::int64_t pieces, Kernel kernel, const OpContext& context,
                   const Args&... args) {
    launch(context.stream,
           {.blocks = div_ceil(pieces, std::int64_t{block_size} * unroll), .threads = block_size},
           kernel, args...);
}

// ---- fill ---------------------------------------------------------------------------------------

template <class V>
__global__ void __launch_bounds__(block_size) fill_kernel(V* to, std::int64_t count, V value) {
    for (int i = 0; i < unroll; ++i) {
        const std::int64_t at = first_piece() + i * block_size;
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

// ---- sum of rows --------------------------------------------------------------------------------

/// A thread sums some adjacent columns.
template <class T>
__global__ void __launch_bounds__(block_size)
    sum_rows_kernel(float* to, const T* rows, std::int64_t count, std::int64_t width,
                    bool aligned) {
    const std::int64_t at =
        (std::int64_t{block_index().x} * block_size + thread_index()) * std::int64_t{cast_width};
    if (!aligned || at + cast_width > width) {
        for (std::int64_t i = at; i < std::min(at + cast_width, width); ++i) {
            float sum = widen(rows[i]);
            for (std::int64_t row = 1; row < count; ++row)
                sum = sum + widen(rows[row * width + i]);
            to[i] = sum;
        }
        return;
    }
    CastPiece<float> sums;
    CastPiece<T> source = load_piece(rows + at);
    for (int i = 0; i < cast_width; ++i)
        sums[i] = widen(source[i]);
    for (std::int64_t row = 1; row < count; ++row) {
        source = load_piece(rows + row * width + at);
        for (int i = 0; i < cast_width; ++i)
            sums[i] = sums[i] + widen(source[i]);
    }
    store_piece(to + at, sums);
}

// ---- strided copies -----------------------------------------------------------------------------

/// Two tensors as bytes, with as few dims as possible: drops dims of size 1 and merges dims that
/// both tensors store like a single dim. All numbers except the sizes of the outer dims are in
/// bytes.
struct StridedCopy {
    static constexpr int max_outer = Shape::max_rank;
    int outer_dims = 0;
    std::int64_t sizes[max_outer] = {};  ///< innermost first
    std::int64_t to_strides[max_outer] = {};
    std::int64_t from_strides[max_outer] = {};
    std::int64_t run = 0;  ///< contiguous bytes in both
};

StridedCopy collapsed(const Tensor& to, const Tensor& from) {
    const std::int64_t element = size_of(to.dtype());
    StridedCopy result;
    result.run = element;
    for (int dim = to.rank() - 1; dim >= 0; --dim) {
        const std::int64_t size = to.size(dim);
        const std::int64_t to_stride = to.stride(dim) * element;
        const std::int64_t from_stride = from.stride(dim) * element;
        if (size == 1) continue;
        const int last = result.outer_dims - 1;
        if (last < 0 && to_stride == result.run && from_stride == result.run) {
            result.run *= size;
        } else if (last >= 0 && to_stride == result.to_strides[last] * result.sizes[last] &&
                   from_stride == result.from_strides[last] * result.sizes[last]) {
            result.sizes[last] *= size;
        } else {
            result.sizes[last + 1] = size;
            result.to_strides[last + 1] = to_stride;
            result.from_strides[last + 1] = from_stride;
            ++result.outer_dims;
        }
    }
    return result;
}

struct CopyArgs {
    std::byte* to;
    const std::byte* from;
    std::int64_t words;
    StridedCopy strided;
};

template <class Word>
__device__ inline Word load_word(const Word* p) {
    if constexpr (sizeof(Word) == 1) {
        return *p;
    } else {
        return load(p);
    }
}
template <class Word>
__device__ inline void store_word(Word* p, const Word& word) {
    if constexpr (sizeof(Word) == 1) {
        *p = word;
    } else {
        store(p, word);
    }
}

/// `Index` can represent the number of words.
template <class Word, class Index>
__global__ void __launch_bounds__(block_size) copy_kernel(CopyArgs args) {
    const auto run_words =
        static_cast<Index>(args.strided.run / static_cast<std::int64_t>(sizeof(Word)));
    Word words[unroll] = {};
    std::int64_t targets[unroll] = {};
    for (int i = 0; i < unroll; ++i) {
        const std::int64_t at = first_piece() + i * block_size;
        if (at >= args.words) continue;
        auto rest = static_cast<Index>(at) / run_words;
        std::int64_t to = static_cast<std::int64_t>(static_cast<Index>(at) % run_words) *
                          static_cast<std::int64_t>(sizeof(Word));
        std::int64_t from = to;
        for (int dim = 0; dim < StridedCopy::max_outer; ++dim) {
            if (dim >= args.strided.outer_dims) break;
            const auto size = static_cast<Index>(args.strided.sizes[dim]);
            const auto index = static_cast<std::int64_t>(rest % size);
            rest = rest / size;
            to += index * args.strided.to_strides[dim];
            from += index * args.strided.from_strides[dim];
        }
        words[i] = load_word(reinterpret_cast<const Word*>(args.from + from));
        targets[i] = to;
    }
    for (int i = 0; i < unroll; ++i) {
        if (first_piece() + i * block_size < args.words)
            store_word(reinterpret_cast<Word*>(args.to + targets[i]), words[i]);
    }
}

template <class Word>
void launch_copy(CopyArgs args, std::int64_t bytes, const OpContext& context) {
    args.words = bytes / static_cast<std::int64_t>(sizeof(Word));
    launch_pieces(args.words,
                  args.words <= INT32_MAX ? copy_kernel<Word, std::uint32_t>
                                          : copy_kernel<Word, std::uint64_t>,
                  context, args);
}

/// Whether words of `word` bytes can do the copy.
bool divisible(const CopyArgs& args, std::int64_t word) {
    const auto whole = [&](auto x) { return static_cast<std::int64_t>(x) % word == 0; };
    bool result = whole(reinterpret_cast<std::uintptr_t>(args.to)) &&
                  whole(reinterpret_cast<std::uintptr_t>(args.from)) && whole(args.strided.run);
    for (int dim = 0; dim < args.strided.outer_dims; ++dim) {
        result =
            result && whole(args.strided.to_strides[dim]) && whole(args.strided.from_strides[dim]);
    }
    return result;
}

void copy_strided(const CopyArgs& args, std::int64_t bytes, const OpContext& context) {
    if (divisible(args, 16)) {
        launch_copy<Vec<std::uint32_t, 4>>(args, bytes, context);
    } else if (divisible(args, 8)) {
        launch_copy<Vec<std::uint32_t, 2>>(args, bytes, context);
    } else if (divisible(args, 4)) {
        launch_copy<std::uint32_t>(args, bytes, context);
    } else if (divisible(args, 2)) {
        launch_copy<std::uint16_t>(args, bytes, context);
    } else {
        launch_copy<std::uint8_t>(args, bytes, context);
    }
}

/// The kernel copies shorter rows, and strides beyond the runtime's limit.
constexpr std::int64_t min_row_bytes = 512;

}  // namespace

void copy(const Tensor& to, const Tensor& from, const OpContext& context) {
    GPTRAIN_CHECK(to.shape() == from.shape() && to.dtype() == from.dtype(), "copy of ",
                  from.shape().to_text(), " to ", to.shape().to_text());
    if (to.elements() == 0) return;
    const StridedCopy strided = collapsed(to, from);
    const std::int64_t to_stride = strided.to_strides[0];
    const std::int64_t from_stride = strided.from_strides[0];
    if (strided.outer_dims == 0) {
        copy(to.data(), from.data(), to.bytes(), context.stream);
    } else if (strided.outer_dims == 1 && strided.run >= min_row_bytes &&
               std::max(to_stride, from_stride) <= INT32_MAX &&
               std::min(to_stride, from_stride) >= strided.run) {
        copy_rows({.to = to.data(),
                   .to_stride = to_stride,
                   .from = from.data(),
                   .from_stride = from_stride,
                   .row_bytes = strided.run,
                   .rows = strided.sizes[0]},
                  context.stream);
    } else {
        copy_strided({.to = to.data(), .from = from.data(), .words = 0, .strided = strided},
                     to.bytes(), context);
    }
}

void fill(const Tensor& x, float value, const OpContext& context) {
    GPTRAIN_CHECK(x.contiguous(), "fill of ", x.shape().to_text());
    if (std::bit_cast<std::uint32_t>(value) == 0) {
        set_bytes(x.data(), 0, x.bytes(), context.stream);
        return;
    }
    switch (x.dtype()) {
        case DType::f64: fill_with(x, static_cast<double>(value), context); break;
        case DType::i32: fill_with(x, static_cast<std::int32_t>(value), context); break;
        case DType::i64: fill_with(x, static_cast<std::int64_t>(value), context); break;
        case DType::u8:
            set_bytes(x.data(), static_cast<std::uint8_t>(value), x.bytes(), context.stream);
            break;
        default:
            with_compute_type(x.dtype(), [&](auto type) {
                fill_with(x, from_float<decltype(type)>(value), context);
            });
    }
}

void cast(const Tensor& to, const Tensor& from, const OpContext& context) {
    GPTRAIN_CHECK(to.elements() == from.elements() && to.contiguous() && from.contiguous(),
                  "cast of ", from.shape().to_text(), " to ", to.shape().to_text());
    with_compute_type(from.dtype(), [&](auto from_type) {
        with_compute_type(to.dtype(), [&](auto to_type) {
            using From = decltype(from_type);
            using To = decltype(to_type);
            const bool aligned = reinterpret_cast<std::uintptr_t>(to.data()) % 16 == 0 &&
                                 reinterpret_cast<std::uintptr_t>(from.data()) % 16 == 0;
            launch(context.stream,
                   {.blocks = div_ceil(to.elements(), std::int64_t{block_size} * cast_width),
                    .threads = block_size},
                   cast_kernel<To, From>, to.as<To>(), from.as<From>(), to.elements(), aligned);
        });
    });
}

void sum_rows(const Tensor& to, const Tensor& rows, const OpContext& context) {
    GPTRAIN_CHECK(rows.rank() == 2 && rows.contiguous() && to.elements() == rows.size(1),
                  "sum of the rows of ", rows.shape().to_text(), " to ", to.shape().to_text());
    const std::int64_t width = rows.size(1);
    with_compute_type(rows.dtype(), [&](auto type) {
        using T = decltype(type);
        const bool aligned = reinterpret_cast<std::uintptr_t>(to.data()) % 16 == 0 &&
                             reinterpret_cast<std::uintptr_t>(rows.data()) % 16 == 0 &&
                             width % cast_width == 0;
        launch(context.stream,
               {.blocks = div_ceil(width, std::int64_t{block_size} * cast_width),
                .threads = block_size},
               sum_rows_kernel<T>, to.as<float>(), rows.as<T>(), rows.size(0), width, aligned);
    });
}

}  // namespace gptrain::cuda
