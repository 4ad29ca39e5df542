// The position of a thread, and the shared memory of its block.
#pragma once

#include <cstddef>

namespace gptrain::cuda {

struct Index3 {
    int x, y, z;
};

__device__ inline int thread_index() {
    return static_cast<int>(threadIdx.x);
}
__device__ inline int block_threads() {
    return static_cast<int>(blockDim.x);
}
__device__ inline Index3 block_index() {
    return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y),
            static_cast<int>(blockIdx.z)};
}
__device__ inline Index3 grid_blocks() {
    return {static_cast<int>(gridDim.x), static_cast<int>(gridDim.y), static_cast<int>(gridDim.z)};
}
constexpr int warp_threads = 32;
__device__ inline int lane_index() {
    return thread_index() % warp_threads;
}
/// Index of the warp in its block. The whole warp calls it together, and the compiler knows that
/// all its threads get the same value.
__device__ inline int warp_index() {
    return __shfl_sync(0xffffffffu, thread_index() / warp_threads, 0);
}

/// The block's shared memory, of the size requested at launch, aligned to 1024 bytes.
template <class T>
__device__ inline T& shared_memory() {
    extern __shared__ __align__(1024) std::byte gptrain_shared_memory[];
    static_assert(alignof(T) <= 1024);
    return *reinterpret_cast<T*>(gptrain_shared_memory);
}

/// Byte offset at which the 16-byte piece of `offset` is stored in a tile of 128-byte rows. The
/// pieces of a row are permuted by the row number, so that eight rows of one column use all banks.
/// The tile is aligned to 1024 bytes.
__host__ __device__ constexpr int swizzle_128(int offset) {
    return offset ^ ((offset >> 7 & 7) << 4);
}

}  // namespace gptrain::cuda
