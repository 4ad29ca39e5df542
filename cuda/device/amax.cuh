// Finds the amax (largest absolute value) of a kernel's output while writing it.
#pragma once

#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"

namespace gptrain::cuda {

/// One value per warp, for a block of any size.
struct WarpAmax {
    float values[warp_threads];
};

/// *result = the maximum of itself and of the values `found` (>= 0) of the block's threads,
/// independent of the order of blocks. `of_warps` is shared memory with one number per warp.
__device__ inline void merge_amax(float found, float* of_warps, float* result) {
    const float of_warp = warp_maximum(found);
    const int lane = lane_index();
    const int warp = warp_index();
    if (lane == 0) of_warps[warp] = of_warp;
    block_barrier();
    if (warp != 0) return;
    const bool is_warp = lane < block_threads() / warp_threads;
    const float of_block = warp_maximum(is_warp ? of_warps[lane] : 0.0f);
    if (lane == 0) atomic_max_not_negative(result, of_block);
}

/// The amax found by one thread; free if not `wanted`.
template <bool wanted>
class RunningAmax {
public:
    /// Adds a piece of a row (pieces.cuh) as stored.
    template <bool aligned, class T>
    __device__ void add(const Vec16<T>& piece, int at, int size) {
        if constexpr (wanted) {
            float x[piece_width<T>];
            widen(piece, x);
            for (int i = 0; i < piece_width<T>; ++i) {
                if (in_row<T, aligned>(at, i, size)) found_ = maximum(found_, absolute(x[i]));
            }
        }
    }

    /// Called once by all threads of the block.
    __device__ void merge(float* of_warps, float* result) const {
        if constexpr (wanted) merge_amax(found_, of_warps, result);
    }

private:
    float found_ = 0;
};

}  // namespace gptrain::cuda
