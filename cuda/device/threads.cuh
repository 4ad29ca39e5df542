// Barriers and exchange of values among the threads of a block or a warp.
#pragma once

#include <cstdint>

#include "cuda/device/indices.cuh"

namespace gptrain::cuda {

// ---- order inside a block -----------------------------------------------------------------------

__device__ inline void block_barrier() {
    __syncthreads();
}
__device__ inline void warp_barrier() {
    __syncwarp();
}
/// Named barriers 1 to 15 for some warps of a block. `threads` threads in total arrive or wait;
/// only those that wait block.
__device__ inline void barrier_wait(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void barrier_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- warp ---------------------------------------------------------------------------------------

/// The value of lane (own lane xor mask). T has 4 or 8 bytes.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
__device__ inline T shuffle(T value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
/// The value of the lane `distance` below; the lowest `distance` lanes keep their own.
template <class T>
__device__ inline T shuffle_up(T value, int distance) {
    return __shfl_up_sync(0xffffffffu, value, distance);
}
/// Bit i is the argument of lane i.
__device__ inline std::uint32_t ballot(bool bit) {
    return __ballot_sync(0xffffffffu, bit);
}

}  // namespace gptrain::cuda
