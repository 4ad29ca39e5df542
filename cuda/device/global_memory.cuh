// Global memory access, and the order in which blocks observe writes.
#pragma once

#include <cstddef>

namespace gptrain::cuda {

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
/// For data read once: evicted from the cache first.
template <class V>
__device__ inline V load_once(const V* p) {
    const auto word = __ldcs(reinterpret_cast<const detail::WordOf<V>*>(p));
    return *reinterpret_cast<const V*>(&word);
}
/// For data that nothing writes while the kernel runs.
template <class V>
__device__ inline V load_constant(const V* p) {
    const auto word = __ldg(reinterpret_cast<const detail::WordOf<V>*>(p));
    return *reinterpret_cast<const V*>(&word);
}
template <class V>
__device__ inline void store(V* p, const V& value) {
    *reinterpret_cast<detail::WordOf<V>*>(p) = *reinterpret_cast<const detail::WordOf<V>*>(&value);
}
/// For data that is not read again soon.
template <class V>
__device__ inline void store_once(V* p, const V& value) {
    __stcs(reinterpret_cast<detail::WordOf<V>*>(p),
           *reinterpret_cast<const detail::WordOf<V>*>(&value));
}

/// *p += x as one atomic operation. Returns the old value.
__device__ inline unsigned atomic_add(unsigned* p, unsigned x) {
    return atomicAdd(p, x);
}
/// *p = max(*p, x) as one atomic operation, for x >= 0; independent of order.
__device__ inline void atomic_max_not_negative(float* p, float x) {
    atomicMax(reinterpret_cast<int*>(p), __float_as_int(x));
}

// ---- order between blocks -----------------------------------------------------------------------
// A block may wait only for work that other blocks took from a counter before it: those blocks run.

/// Reads a counter. Everything its writer did before `store_release` is visible afterwards.
__device__ inline unsigned load_acquire(const unsigned* p) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    return value;
}
__device__ inline void store_release(unsigned* p, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
/// Call in the body of every loop that waits for another thread.
__device__ inline void spin_pause() {
    __nanosleep(20);
}

}  // namespace gptrain::cuda
