// Reads one row of logits with a block.
#pragma once

#include <limits>

#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/unrolled.cuh"

namespace gptrain::cuda {

constexpr int row_threads = 512;
constexpr int row_warps = row_threads / warp_threads;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// e^(a - b)
__device__ inline float exp_difference(float a, float b) {
    constexpr float log2_e = 1.44269504f;
    return exp2_approx((a - b) * log2_e);
}

/// A row in pieces that the block's threads take in turn. If `aligned`, all pieces are aligned to
/// 16 bytes, and all except perhaps the last are whole.
template <class T, bool aligned>
class LogitRow {
public:
    __device__ LogitRow(T* row, int vocab) : row_(row), vocab_(vocab) {}

    __device__ int pieces() const { return (vocab_ + width - 1) / width; }
    __device__ bool holds(std::int64_t index) const { return index >= 0 && index < vocab_; }
    __device__ float logit(std::int64_t index) const { return widen(row_[index]); }
    /// Call from the thread that stored the element's piece, or after a barrier.
    __device__ void replace(std::int64_t index, float value) const {
        row_[index] = narrow<T>(value);
    }
    __device__ bool stored_by_this_thread(std::int64_t index) const {
        return index / width % row_threads == thread_index();
    }

    __device__ void store(int piece, const Vec16<T>& values) const {
        const int at = piece * width;
        piece < whole_pieces() ? store_piece<true>(row_, at, vocab_, values)
                               : store_piece<false>(row_, at, vocab_, values);
    }

    /// Calls use(piece, its logits) for this thread's pieces from `begin`, a multiple of
    /// row_threads, to `end`, in order, with several loads at a time. Elements past the end of the
    /// row are -infinity, whose exponential is 0.
    template <class Use>
    __device__ void for_each(int begin, int end, const Use& use) const {
        constexpr int unroll = 4;
        int piece = begin + thread_index();
        const int batches_end = whole_pieces() < end ? whole_pieces() : end;
        for (; piece + (unroll - 1) * row_threads < batches_end; piece += unroll * row_threads) {
            Vec16<T> batch[unroll];
            for (int i = 0; i < unroll; ++i)
                batch[i] = load_piece<true>(row_, (piece + i * row_threads) * width, vocab_);
            unrolled<unroll>([&](int i) { use(piece + i * row_threads, batch[i]); });
        }
        for (; piece < end; piece += row_threads)
            use(piece, load_any(piece));
    }

private:
    static constexpr int width = piece_width<T>;
    __device__ int whole_pieces() const { return aligned ? vocab_ / width : 0; }
    __device__ Vec16<T> load_any(int piece) const {
        const int at = piece * width;
        if (piece < whole_pieces()) return load_piece<true>(row_, at, vocab_);
        Vec16<T> result;
        for (int i = 0; i < width; ++i)
            result[i] = at + i < vocab_ ? row_[at + i] : narrow<T>(minus_infinity);
        return result;
    }

    T* row_;
    int vocab_;
};

struct RowShared {
    float maxima[row_warps];
    float sums[row_warps];
};

/// The maximum of some numbers, and the sum of exp(number - maximum).
struct Exponentials {
    float maximum = minus_infinity;
    float sum = 0;

    template <class T>
    __device__ void add(const Vec16<T>& piece) {
        float x[piece_width<T>];
        widen(piece, x);
        float largest = maximum;
        for (const float value : x)
            largest = cuda::maximum(largest, value);
        // Infinity minus infinity would be NaN.
        const float base = largest > minus_infinity ? largest : 0.0f;
        float total = sum * exp_difference(maximum, base);
        for (const float value : x)
            total = total + exp_difference(value, base);
        maximum = largest;
        sum = total;
    }

    /// Combines those of all threads of the block.
    __device__ Exponentials reduce_block(RowShared& shared) const {
        Exponentials all;
        all.maximum = block_maximum(maximum, shared.maxima);
        all.sum = block_sum(sum * exp_difference(maximum, all.maximum), shared.sums);
        return all;
    }
};

}  // namespace gptrain::cuda
