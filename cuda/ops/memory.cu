#include "cuda/ops/memory.h"

#include <algorithm>

#include "cuda/device/pieces.cuh"
#include "cuda/ops/flat_pieces.cuh"

namespace gptrain::cuda {
namespace {

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
__global__ void __launch_bounds__(flat_block_size) copy_kernel(CopyArgs args) {
    const auto run_words =
        static_cast<Index>(args.strided.run / static_cast<std::int64_t>(sizeof(Word)));
    Word words[flat_unroll] = {};
    std::int64_t targets[flat_unroll] = {};
    for (int i = 0; i < flat_unroll; ++i) {
        const std::int64_t at = first_piece() + i * flat_block_size;
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
    for (int i = 0; i < flat_unroll; ++i) {
        if (first_piece() + i * flat_block_size < args.words)
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

/// True if the copy can be done in words of `word` bytes.
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

}  // namespace gptrain::cuda
