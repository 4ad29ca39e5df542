// What kernels see of a GPU from sm_80 on: each function is one instruction, or one of the
// compiler's own. Kernels contain no assembly and no other CUDA header, so that the host compiler
// can build them too: the emulator has a twin of this file in which every function checks how it is
// used. Rules for kernels:
//  - Blocks are one-dimensional. Functions that say "warp" are called by all 32 threads of a warp
//    together, those that say "block" by all threads of the block.
//  - Shared memory is one struct from shared_memory<T>(). Global memory is read and written by
//    load and store, or plainly through pointers to single elements.
//  - a * b + c is never fused; what should be is written fma(a, b, c).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float8.h"

namespace gptrain::cuda {

// ---- place --------------------------------------------------------------------------------------

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
/// Warp of the block, asked for by the whole warp together; the compiler knows that it is the same
/// for all of its threads.
__device__ inline int warp_index() {
    return __shfl_sync(0xffffffffu, thread_index() / warp_threads, 0);
}

/// The block's shared memory, as large as the launch asked for; aligned to 1024 bytes.
template <class T>
__device__ inline T& shared_memory() {
    extern __shared__ __align__(1024) std::byte gptrain_shared_memory[];
    static_assert(alignof(T) <= 1024);
    return *reinterpret_cast<T*>(gptrain_shared_memory);
}

/// Byte offset in a tile of 128-byte rows at which the 16-byte piece that belongs to `offset` lies:
/// pieces of a row change places by the row's number, so that eight rows of one column meet all
/// banks. The tile is aligned to 1024 bytes.
__host__ __device__ constexpr int swizzle_128(int offset) {
    return offset ^ ((offset >> 7 & 7) << 4);
}

// ---- values -------------------------------------------------------------------------------------

/// Elements that are loaded and stored by one access of at most 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T)) Vec {
    static_assert(N * sizeof(T) <= 16);
    T values[N];
    __device__ T& operator[](int i) { return values[i]; }
    __device__ const T& operator[](int i) const { return values[i]; }
};

/// As many elements as 16 bytes hold.
template <class T>
using Vec16 = Vec<T, 16 / static_cast<int>(sizeof(T))>;

/// Exact widening.
__device__ inline float widen(float x) {
    return x;
}
__device__ inline float widen(Bf16 x) {
    return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
}
__device__ inline float widen(F16 x) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
    return result;
}

/// Rounding to nearest even; NaN stays NaN, values out of range become infinite.
template <class T>
__device__ inline T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
    return x;
}
template <>
__device__ inline Bf16 narrow<Bf16>(float x) {
    Bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
}
template <>
__device__ inline F16 narrow<F16>(float x) {
    F16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
}

/// Two 16-bit elements in one register, `low` in the lower half.
template <class T>
__device__ inline std::uint32_t narrow2(float low, float high);
template <>
__device__ inline std::uint32_t narrow2<Bf16>(float low, float high) {
    std::uint32_t result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}
template <>
__device__ inline std::uint32_t narrow2<F16>(float low, float high) {
    std::uint32_t result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

/// Rounding to nearest even; what is beyond the largest number becomes the largest, NaN stays NaN.
/// Two elements in 16 bits, `low` in the lower half.
template <class Float8>
__device__ inline std::uint32_t narrow2_float8(float low, float high) {
#if __CUDA_ARCH__ >= 890
    unsigned short result;
    if constexpr (Float8::dtype == DType::f8e4m3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    }
    return result;
#else
    return gptrain::to_float8<Float8>(low).bits |
           static_cast<std::uint32_t>(gptrain::to_float8<Float8>(high).bits) << 8;
#endif
}

__device__ inline std::uint32_t bits_of(float x) {
    return __float_as_uint(x);
}
__device__ inline float float_of(std::uint32_t bits) {
    return __uint_as_float(bits);
}
/// How many bits are 1.
__device__ inline int bits_set(std::uint32_t x) {
    return __popc(x);
}

// ---- arithmetic ---------------------------------------------------------------------------------

/// a b + c, rounded once.
__device__ inline float fma(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
__device__ inline double fma(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
/// 2^x within 2 units of the last place; subnormal results are 0.
__device__ inline float exp2_approx(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/// Base-2 logarithm, absolute error below 2^-22 for x in [0.5, 2], else relative.
__device__ inline float log2_approx(float x) {
    float result;
    asm("lg2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/// 1 / x within 1 unit of the last place.
__device__ inline float reciprocal_approx(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/// Rounded to nearest.
__device__ inline float square_root(float x) {
    return __fsqrt_rn(x);
}
__device__ inline double square_root(double x) {
    return __dsqrt_rn(x);
}
/// The other one if one of them is NaN.
__device__ inline float maximum(float a, float b) {
    return fmaxf(a, b);
}
__device__ inline float minimum(float a, float b) {
    return fminf(a, b);
}
__device__ inline float absolute(float x) {
    return fabsf(x);
}
// From the compiler's library, within 2 units of the last place.
__device__ inline double cosine(double x) {
    return ::cos(x);
}
__device__ inline double sine(double x) {
    return ::sin(x);
}
__device__ inline double power(double x, double y) {
    return ::pow(x, y);
}
__device__ inline float logarithm(float x) {
    return ::logf(x);
}
__device__ inline double logarithm(double x) {
    return ::log(x);
}
__device__ inline double exponential(double x) {
    return ::exp(x);
}
/// cos and sin of pi x.
__device__ inline float cosine_pi(float x) {
    return ::cospif(x);
}
__device__ inline float sine_pi(float x) {
    return ::sinpif(x);
}
__device__ inline double cosine_pi(double x) {
    return ::cospi(x);
}
__device__ inline double sine_pi(double x) {
    return ::sinpi(x);
}
__device__ inline bool is_finite(double x) {
    return ::isfinite(x);
}

// ---- global memory ------------------------------------------------------------------------------

namespace detail {
template <std::size_t bytes>
struct Word;
template <>
struct Word<2> {
    using Type = unsigned short;
};
template <>
struct Word<4> {
    using Type = unsigned;
};
template <>
struct Word<8> {
    using Type = uint2;
};
template <>
struct Word<16> {
    using Type = uint4;
};
template <class V>
using WordOf = typename Word<sizeof(V)>::Type;
}  // namespace detail

/// One access; p is aligned to the size of V (2, 4, 8 or 16 bytes).
template <class V>
__device__ inline V load(const V* p) {
    const auto word = *reinterpret_cast<const detail::WordOf<V>*>(p);
    return *reinterpret_cast<const V*>(&word);
}
/// For what is read once: first to leave the cache.
template <class V>
__device__ inline V load_once(const V* p) {
    const auto word = __ldcs(reinterpret_cast<const detail::WordOf<V>*>(p));
    return *reinterpret_cast<const V*>(&word);
}
/// For what nobody writes while the kernel runs.
template <class V>
__device__ inline V load_constant(const V* p) {
    const auto word = __ldg(reinterpret_cast<const detail::WordOf<V>*>(p));
    return *reinterpret_cast<const V*>(&word);
}
template <class V>
__device__ inline void store(V* p, const V& value) {
    *reinterpret_cast<detail::WordOf<V>*>(p) = *reinterpret_cast<const detail::WordOf<V>*>(&value);
}
/// For what is not read again soon.
template <class V>
__device__ inline void store_once(V* p, const V& value) {
    __stcs(reinterpret_cast<detail::WordOf<V>*>(p),
           *reinterpret_cast<const detail::WordOf<V>*>(&value));
}

/// *p += x in some order: results differ from run to run.
__device__ inline void atomic_add(float* p, float x) {
    atomicAdd(p, x);
}
/// Returns what was there.
__device__ inline unsigned atomic_add(unsigned* p, unsigned x) {
    return atomicAdd(p, x);
}
/// *p = max(*p, x), whole and not negative x: the same in any order.
__device__ inline void atomic_max_not_negative(float* p, float x) {
    atomicMax(reinterpret_cast<int*>(p), __float_as_int(x));
}

// ---- order between blocks -----------------------------------------------------------------------
// A block may wait for lower-numbered blocks of its launch only.

/// Reads a counter; what its writer did before `store_release` is seen afterwards.
__device__ inline unsigned load_acquire(const unsigned* p) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    return value;
}
__device__ inline void store_release(unsigned* p, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
/// In the body of every loop that waits for another thread.
__device__ inline void spin_pause() {
    __nanosleep(20);
}
/// What this thread wrote is seen by the whole device before what it writes next.
__device__ inline void device_fence() {
    __threadfence();
}

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

// ---- copies from global to shared memory --------------------------------------------------------

namespace detail {
__device__ inline std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
}  // namespace detail

/// Starts to copy 16 bytes past the first-level cache; where not `valid`, nothing is read and zeros
/// are written. Both are aligned to 16 bytes.
__device__ inline void copy_async_16(void* to_shared, const void* from_global, bool valid) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(detail::shared_address(to_shared)),
        "l"(from_global), "r"(valid ? 16 : 0)
        : "memory");
}
/// The same for 4 or 8 bytes.
template <int bytes>
__device__ inline void copy_async(void* to_shared, const void* from_global, bool valid) {
    static_assert(bytes == 4 || bytes == 8);
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(detail::shared_address(to_shared)),
        "l"(from_global), "n"(bytes), "r"(valid ? bytes : 0)
        : "memory");
}
/// Makes one group of this thread's copies since the last commit.
__device__ inline void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until all but this thread's `pending` newest groups are there; other threads see them
/// after a barrier.
template <int pending>
__device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// ---- products of a warp -------------------------------------------------------------------------

/// Four 8 x 8 tiles of 16-bit elements from shared memory: lane i gives the address (aligned to 16
/// bytes) of row i % 8 of tile i / 8. Register j holds, of tile j, the elements (lane / 4,
/// 2 (lane % 4)) and, in the upper half, the one right of it; transposed, (row, column) change
/// places.
__device__ inline void load_tiles(std::uint32_t (&tiles)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(detail::shared_address(row))
                 : "memory");
}
__device__ inline void load_tiles_transposed(std::uint32_t (&tiles)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(detail::shared_address(row))
                 : "memory");
}

/// c[16 x 8] += a[16 x 16] b[16 x 8], T is Bf16 or F16. With g = lane / 4 and t = lane % 4:
/// c[0], c[1] are (g, 2 t), (g, 2 t + 1), c[2], c[3] the same in row g + 8;
/// a[0] holds (g, 2 t), (g, 2 t + 1), a[1] row g + 8, a[2] columns + 8, a[3] both;
/// b[0] holds (2 t, g), (2 t + 1, g), b[1] rows + 8.
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
