// Elements of 4, 2 and 1 bytes in registers.
#pragma once

#include <cstdint>

#include "base/fp8.h"

namespace gptrain::cuda {

/// Elements that one access of at most 16 bytes loads or stores.
template <class T, int N>
struct alignas(N * sizeof(T)) Vec {
    static_assert(N * sizeof(T) <= 16);
    T values[N];
    __device__ T& operator[](int i) { return values[i]; }
    __device__ const T& operator[](int i) const { return values[i]; }
};

/// As many elements as fit in 16 bytes.
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

/// Rounds to nearest even. NaN stays NaN; values out of range become infinite.
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

/// Rounds to nearest even and saturates: values beyond the largest finite number become that
/// number. NaN stays NaN. Returns two elements in 16 bits, `low` in the lower half.
template <class Fp8>
__device__ inline std::uint32_t narrow2_fp8(float low, float high) {
#if __CUDA_ARCH__ >= 890
    unsigned short result;
    if constexpr (Fp8::dtype == DType::f8e4m3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    }
    return result;
#else
    return gptrain::to_fp8<Fp8>(low).bits |
           static_cast<std::uint32_t>(gptrain::to_fp8<Fp8>(high).bits) << 8;
#endif
}

__device__ inline std::uint32_t bits_of(float x) {
    return __float_as_uint(x);
}
__device__ inline float float_of(std::uint32_t bits) {
    return __uint_as_float(bits);
}
/// The number of bits set.
__device__ inline int bits_set(std::uint32_t x) {
    return __popc(x);
}

}  // namespace gptrain::cuda
