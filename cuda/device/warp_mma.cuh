// Tiles in shared memory: asynchronous copies from global memory, and warp-level matrix multiplies.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace gptrain::cuda {

/// Where p is in shared memory, as instructions and descriptors have it; below 2^18.
__device__ inline std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ---- copies from global to shared memory --------------------------------------------------------

/// Starts to copy 16 bytes, bypassing the L1 cache; if not `valid`, reads nothing and writes zeros.
/// Both addresses are aligned to 16 bytes.
__device__ inline void copy_async_16(void* to_shared, const void* from_global, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "r"(valid ? 16 : 0)
                 : "memory");
}
/// The same for 4 or 8 bytes.
template <int bytes>
__device__ inline void copy_async(void* to_shared, const void* from_global, bool valid) {
    static_assert(bytes == 4 || bytes == 8);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "n"(bytes), "r"(valid ? bytes : 0)
                 : "memory");
}
/// Groups this thread's copies since the last commit.
__device__ inline void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until all but this thread's `pending` newest groups have arrived; other threads see them
/// after a barrier.
template <int pending>
__device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// ---- warp matrix multiplies ---------------------------------------------------------------------

/// Loads four 8 x 8 tiles of 16-bit elements from shared memory: lane i passes the address (aligned
/// to 16 bytes) of row i % 8 of tile i / 8. Register j holds element (lane / 4, 2 (lane % 4)) of
/// tile j and, in the upper half, the next column; transposed, row and column are swapped.
__device__ inline void load_tiles(std::uint32_t (&tiles)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ inline void load_tiles_transposed(std::uint32_t (&tiles)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// c[16 x 8] += a[16 x 16] b[16 x 8]; T is Bf16 or F16. With g = lane / 4 and t = lane % 4:
/// c[0], c[1] are (g, 2 t), (g, 2 t + 1); c[2], c[3] the same in row g + 8;
/// a[0] holds (g, 2 t), (g, 2 t + 1); a[1] row g + 8; a[2] columns + 8; a[3] both;
/// b[0] holds (2 t, g), (2 t + 1, g); b[1] rows + 8.
template <class T>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]);
template <>
__device__ inline void multiply_add<Bf16>(float (&c)[4], const std::uint32_t (&a)[4],
                                          const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ inline void multiply_add<F16>(float (&c)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace gptrain::cuda
