// Primitives of sm_90a kernels, in addition to device.cuh: transaction barriers, bulk copies by the
// tensor memory accelerator (TMA), warpgroup matrix multiplies, register reallocation. One
// instruction each. Plain stores to shared memory become visible to bulk copies and
// warpgroup_multiply after each writing thread calls fence_async_proxy() and then a barrier.
#pragma once

#include "cuda/device/device.cuh"
#include "cuda/device/operand.h"
#include "cuda/device/tensor_map.h"

namespace gptrain::cuda {

// ---- barriers in shared memory ------------------------------------------------------------------

/// A phase completes when all arrivals and all expected bytes have come; then the next phase
/// begins. Phases are identified by parity; the first has parity 0.
struct alignas(8) Barrier {
    std::uint64_t state;
};

/// Called by one thread, followed by its fence_barriers() and a block barrier, before any thread
/// uses the barrier.
__device__ inline void init(Barrier& barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
                 "r"(arrivals)
                 : "memory");
}
__device__ inline void fence_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(Barrier& barrier) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}\n" ::"r"(
                     shared_address(&barrier))
                 : "memory");
}
/// Arrives, and makes the phase wait for `bytes` more bytes of bulk copies.
__device__ inline void arrive_expect_bytes(Barrier& barrier, int bytes) {
    asm volatile(
        "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}\n" ::
            "r"(shared_address(&barrier)),
        "r"(bytes)
        : "memory");
}
/// Waits until the phase with this parity completes.
__device__ inline void wait(Barrier& barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nwaiting:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\nbra waiting;\nfinished:\n}\n" ::"r"(shared_address(&barrier)),
        "r"(parity)
        : "memory");
}

// ---- bulk copies --------------------------------------------------------------------------------
// One thread starts each copy. Addresses are aligned to 16 bytes (tiles to 1024); sizes are
// multiples of 16.

/// Position of a box's first element in a tensor [B, S, heads, D].
struct BoxPlace {
    int feature, head, row, sequence;
};

__device__ inline void prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// Starts a copy of the map's box at `place`; rows outside the tensor are filled with 0. The
/// barrier counts all bytes of the box.
__device__ inline void load_box(void* to_shared, const TensorMap& map, const BoxPlace& place,
                                Barrier& barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to_shared)),
        "l"(&map), "r"(place.feature), "r"(place.head), "r"(place.row), "r"(place.sequence),
        "r"(shared_address(&barrier))
        : "memory");
}
/// Starts to write the box; parts behind the tensor are skipped. An H100 stops at a negative row.
__device__ inline void store_box(const TensorMap& map, const BoxPlace& place,
                                 const void* from_shared) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], "
        "[%5];" ::"l"(&map),
        "r"(place.feature), "r"(place.head), "r"(place.row), "r"(place.sequence),
        "r"(shared_address(from_shared))
        : "memory");
}
/// Starts to copy `bytes` contiguous bytes; the barrier counts them.
__device__ inline void load_bulk(void* to_shared, const void* from_global, int bytes,
                                 Barrier& barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to_shared)),
        "l"(from_global), "r"(bytes), "r"(shared_address(&barrier))
        : "memory");
}
__device__ inline void store_bulk(void* to_global, const void* from_shared, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to_global),
                 "r"(shared_address(from_shared)), "r"(bytes)
                 : "memory");
}
/// Starts to add fp32 values to global memory. Each element is added atomically; neither one
/// thread's bulk additions nor those of different threads have a defined order.
__device__ inline void add_bulk(float* to_global, const float* from_shared, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                     to_global),
                 "r"(shared_address(from_shared)), "r"(bytes)
                 : "memory");
}
/// Groups this thread's stores and additions since the last commit.
__device__ inline void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all but the `pending` newest groups have finished reading shared memory.
template <int pending>
__device__ inline void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
/// Waits until all but the `pending` newest groups have reached global memory.
template <int pending>
__device__ inline void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}
/// Orders this thread's plain writes to shared memory before later bulk copies and matrix
/// multiplies.
__device__ inline void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Orders bulk copies to and from global memory with this thread's plain accesses and counters.
__device__ inline void fence_async_proxy_global() {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

// ---- register tiles to shared memory ------------------------------------------------------------

/// The inverse of load_tiles.
__device__ inline void store_tiles(void* row, const std::uint32_t (&tiles)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(tiles[0]), "r"(tiles[1]), "r"(tiles[2]), "r"(tiles[3])
                 : "memory");
}
__device__ inline void store_tiles_transposed(void* row, const std::uint32_t (&tiles)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(tiles[0]), "r"(tiles[1]), "r"(tiles[2]), "r"(tiles[3])
                 : "memory");
}

// ---- warpgroup matrix multiplies ----------------------------------------------------------------

/// Call before the first multiply, and whenever registers of c or a were accessed since the last
/// one.
__device__ inline void warpgroup_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Groups the multiplies since the last commit.
__device__ inline void warpgroup_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the `pending` newest groups are done. Until then do not access c, the
/// registers of a, or the shared memory of a group's operands.
template <int pending>
__device__ inline void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// Prevents the compiler from moving other uses of these registers across this point.
template <int n>
__device__ inline void pin_registers(float (&c)[n]) {
    for (int i = 0; i < n; ++i)
        asm volatile("" : "+f"(c[i])::"memory");
}

// The registers of c, as inline assembly takes them, and their names in its text.
#define GPTRAIN_8_REGISTERS(i)                                                                  \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
        "+f"(c[i + 6]), "+f"(c[i + 7])
#define GPTRAIN_32_REGISTERS \
    GPTRAIN_8_REGISTERS(0), GPTRAIN_8_REGISTERS(8), GPTRAIN_8_REGISTERS(16), GPTRAIN_8_REGISTERS(24)
#define GPTRAIN_64_REGISTERS                                                \
    GPTRAIN_32_REGISTERS, GPTRAIN_8_REGISTERS(32), GPTRAIN_8_REGISTERS(40), \
        GPTRAIN_8_REGISTERS(48), GPTRAIN_8_REGISTERS(56)
#define GPTRAIN_32_NAMES                                                     \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GPTRAIN_64_NAMES                                                               \
    GPTRAIN_32_NAMES                                                                   \
    ", "                                                                               \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define GPTRAIN_128_REGISTERS                                                      \
    GPTRAIN_64_REGISTERS, GPTRAIN_8_REGISTERS(64), GPTRAIN_8_REGISTERS(72),        \
        GPTRAIN_8_REGISTERS(80), GPTRAIN_8_REGISTERS(88), GPTRAIN_8_REGISTERS(96), \
        GPTRAIN_8_REGISTERS(104), GPTRAIN_8_REGISTERS(112), GPTRAIN_8_REGISTERS(120)
#define GPTRAIN_128_NAMES                                                                    \
    GPTRAIN_64_NAMES                                                                         \
    ", "                                                                                     \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "       \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "       \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
    "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "   \
    "%125, %126, %127"

// warpgroup_multiply starts c[64 x N] (+)= a[64 x 16] b[16 x N] in the four warps of a warpgroup,
// where N is twice the length of c; without `accumulate` it overwrites c. Warp w of the group holds
// rows 16 w to 16 w + 15. With g = lane / 4 and t = lane % 4, c[4 j] and c[4 j + 1] are elements
// (16 w + g, 8 j + 2 t) and the next column; c[4 j + 2] and c[4 j + 3] are the same in row + 8. If
// a is in registers, its layout is that of multiply_add, starting at row 16 w.

template <Major a_major, Major b_major>
__device__ inline void warpgroup_multiply(float (&c)[32], Operand<a_major> a, Operand<b_major> b,
                                          bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" GPTRAIN_32_NAMES
        "}, %32, %33, p, 1, 1, %35, %36;\n}\n"
        : GPTRAIN_32_REGISTERS
        : "l"(a.descriptor), "l"(b.descriptor), "r"(static_cast<int>(accumulate)),
          "n"(a_major == Major::mn ? 1 : 0), "n"(b_major == Major::mn ? 1 : 0));
}

template <Major b_major>
__device__ inline void warpgroup_multiply(float (&c)[32], const std::uint32_t (&a)[4],
                                          Operand<b_major> b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" GPTRAIN_32_NAMES
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
        : GPTRAIN_32_REGISTERS
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor),
          "r"(static_cast<int>(accumulate)), "n"(b_major == Major::mn ? 1 : 0));
}

template <Major a_major, Major b_major>
__device__ inline void warpgroup_multiply(float (&c)[64], Operand<a_major> a, Operand<b_major> b,
                                          bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" GPTRAIN_64_NAMES
        "}, %64, %65, p, 1, 1, %67, %68;\n}\n"
        : GPTRAIN_64_REGISTERS
        : "l"(a.descriptor), "l"(b.descriptor), "r"(static_cast<int>(accumulate)),
          "n"(a_major == Major::mn ? 1 : 0), "n"(b_major == Major::mn ? 1 : 0));
}

template <Major b_major>
__device__ inline void warpgroup_multiply(float (&c)[64], const std::uint32_t (&a)[4],
                                          Operand<b_major> b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" GPTRAIN_64_NAMES
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}\n"
        : GPTRAIN_64_REGISTERS
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor),
          "r"(static_cast<int>(accumulate)), "n"(b_major == Major::mn ? 1 : 0));
}

#define GPTRAIN_MULTIPLY_256(type)                                                          \
    asm volatile(                                                                           \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                       \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" GPTRAIN_128_NAMES \
        "}, %128, %129, p, 1, 1, %131, %132;\n}\n"                                          \
        : GPTRAIN_128_REGISTERS                                                             \
        : "l"(a.descriptor), "l"(b.descriptor), "r"(static_cast<int>(accumulate)),          \
          "n"(a_major == Major::mn ? 1 : 0), "n"(b_major == Major::mn ? 1 : 0))

#define GPTRAIN_MULTIPLY_FP8(columns, names, registers, a_at, b_at, p_at, a_type, b_type)       \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_at                                       \
                 ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k32.f32." a_type "." b_type \
                 " {" names "}, " a_at ", " b_at ", p, 1, 1;\n}\n"                              \
                 : registers                                                                    \
                 : "l"(a.descriptor), "l"(b.descriptor), "r"(static_cast<int>(accumulate)))

/// The same for elements of T: Bf16, F16, or FP8 as below.
template <class T, Major a_major, Major b_major>
__device__ inline void warpgroup_multiply(float (&c)[128], Operand<a_major> a, Operand<b_major> b,
                                          bool accumulate) {
    if constexpr (T::dtype == DType::bf16) {
        GPTRAIN_MULTIPLY_256("bf16");
    } else if constexpr (T::dtype == DType::f8e4m3) {
        static_assert(a_major == Major::k && b_major == Major::k);
        GPTRAIN_MULTIPLY_FP8("256", GPTRAIN_128_NAMES, GPTRAIN_128_REGISTERS, "%128", "%129",
                             "%130", "e4m3", "e4m3");
    } else {
        static_assert(T::dtype == DType::f16);
        GPTRAIN_MULTIPLY_256("f16");
    }
}

/// The same for k = 32 elements of FP8: T of a, E4M3 of b. k is contiguous, and its operands are
/// laid out as 16 elements of 16 bits. The tensor cores add with fewer bits than fp32
/// (docs/numerics.md, "FP8").
template <class T>
__device__ inline void warpgroup_multiply(float (&c)[64], Operand<Major::k> a, Operand<Major::k> b,
                                          bool accumulate) {
    if constexpr (T::dtype == DType::f8e4m3) {
        GPTRAIN_MULTIPLY_FP8("128", GPTRAIN_64_NAMES, GPTRAIN_64_REGISTERS, "%64", "%65", "%66",
                             "e4m3", "e4m3");
    } else {
        GPTRAIN_MULTIPLY_FP8("128", GPTRAIN_64_NAMES, GPTRAIN_64_REGISTERS, "%64", "%65", "%66",
                             "e5m2", "e4m3");
    }
}
#undef GPTRAIN_MULTIPLY_FP8
#undef GPTRAIN_MULTIPLY_256
#undef GPTRAIN_128_REGISTERS
#undef GPTRAIN_128_NAMES
#undef GPTRAIN_8_REGISTERS
#undef GPTRAIN_32_REGISTERS
#undef GPTRAIN_64_REGISTERS
#undef GPTRAIN_32_NAMES
#undef GPTRAIN_64_NAMES

// ---- registers ----------------------------------------------------------------------------------

/// Called by all warps of a warpgroup, in one branch of an if/else on the warpgroup. The kernel's
/// launch bounds must specify one block per multiprocessor.
template <int registers>
__device__ inline void raise_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void lower_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

}  // namespace gptrain::cuda
