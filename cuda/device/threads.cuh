// What the threads of a block or a warp do together: barriers and exchange of values.
#pragma once

#include <cstdint>

#include "cuda/device/place.cuh"

namespace gptrain::cuda {

// ---- order inside a block -----------------------------------------------------------------------

__device__ inline void block_barrier() {
    __syncthreads();
}
__device__ inline void warp_barrier() {
    __syncwarp();
}
/// Barriers 1 to 15 for some warps of a block: `threads` of them arrive or wait. Only those that
/// wait stop.
__device__ inline void barrier_wait(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void barrier_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- warp ---------------------------------------------------------------------------------------

/// The value of lane (own lane xor mask). 4 or 8 bytes.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
__device__ inline T shuffle(T value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
/// The value of the lane `by` below; the lowest ones keep their own.
template <class T>
__device__ inline T shuffle_up(T value, int by) {
    return __shfl_up_sync(0xffffffffu, value, by);
}
/// Bit i: what lane i said.
__device__ inline std::uint32_t ballot(bool said) {
    return __ballot_sync(0xffffffffu, said);
}

}  // namespace gptrain::cuda
