// Eight floats at a time (AVX2, FMA, F16C), with loads and stores that widen and round 16-bit
// types. Code written over `Full` and `Part` lanes handles whole vectors and row ends alike.
#pragma once

#include <cstdint>
#include <immintrin.h>

#include "base/dtype.h"
#include "cpu/lanes.h"

namespace gptrain::cpu {

struct Vec8;
using Full = FullLanes<Vec8>;
using Part = PartLanes<Vec8>;

struct Vec8 {
    static constexpr int size = 8;
    __m256 v;

    Vec8() = default;
    Vec8(__m256 x) : v(x) {}                 // NOLINT: implicit conversion intended
    Vec8(float x) : v(_mm256_set1_ps(x)) {}  // NOLINT: broadcasts a number

    static Vec8 load(const float* p) { return _mm256_loadu_ps(p); }
    void store(float* p) const { _mm256_storeu_ps(p, v); }

    friend Vec8 operator+(Vec8 a, Vec8 b) { return _mm256_add_ps(a.v, b.v); }
    friend Vec8 operator-(Vec8 a, Vec8 b) { return _mm256_sub_ps(a.v, b.v); }
    friend Vec8 operator*(Vec8 a, Vec8 b) { return _mm256_mul_ps(a.v, b.v); }
    friend Vec8 operator/(Vec8 a, Vec8 b) { return _mm256_div_ps(a.v, b.v); }
    /// a b + c, rounded once
    friend Vec8 fma(Vec8 a, Vec8 b, Vec8 c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
    /// c - a b, rounded once
    friend Vec8 fnma(Vec8 a, Vec8 b, Vec8 c) { return _mm256_fnmadd_ps(a.v, b.v, c.v); }
    /// If either operand is NaN, min and max return b.
    friend Vec8 min(Vec8 a, Vec8 b) { return _mm256_min_ps(a.v, b.v); }
    friend Vec8 max(Vec8 a, Vec8 b) { return _mm256_max_ps(a.v, b.v); }
    friend Vec8 sqrt(Vec8 a) { return _mm256_sqrt_ps(a.v); }
    friend Vec8 round(Vec8 a) {
        return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    friend Vec8 floor(Vec8 a) { return _mm256_floor_ps(a.v); }
    /// a mod 2 (0 or 1), for whole a
    friend Vec8 remainder_of_two(Vec8 a) { return a - Vec8(2.0f) * floor(a * Vec8(0.5f)); }
    struct Exponent;
    /// a = mantissa 2^exponent, for normal a > 0
    friend Exponent split_exponent(Vec8 a);
    /// a 2^n for whole n; 2^-127 counts as 0, and n is limited to [-127, 127].
    friend Vec8 times_power_of_two(Vec8 a, Vec8 n) {
        const Vec8 limited = max(Vec8(-127.0f), min(Vec8(127.0f), n));
        const __m256i biased =
            _mm256_add_epi32(_mm256_cvtps_epi32(limited.v), _mm256_set1_epi32(127));
        return a * Vec8(_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
    }
    /// a < b ? x : y
    friend Vec8 select_less(Vec8 a, Vec8 b, Vec8 x, Vec8 y) {
        return _mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ));
    }

    float sum() const {
        const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        const __m128 quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
    }
    float maximum() const {
        const __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        const __m128 quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_shuffle_ps(quarter, quarter, 1)));
    }
};

struct Vec8::Exponent {
    Vec8 mantissa;  ///< in [0.5, 1)
    Vec8 exponent;
};
inline Vec8::Exponent split_exponent(Vec8 a) {
    const __m256i bits = _mm256_castps_si256(a.v);
    const __m256i exponent = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(126));
    const __m256i mantissa = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff)),
                                             _mm256_set1_epi32(126 << 23));
    return {_mm256_castsi256_ps(mantissa), _mm256_cvtepi32_ps(exponent)};
}

namespace detail {

inline __m256i lane_mask(Part part) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(part.count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec8 widen(Bf16, __m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec8 widen(F16, __m128i bits) {
    return _mm256_cvtph_ps(bits);
}

/// Same as to_bf16: nearest even, NaN stays NaN.
inline __m128i round_to(Bf16, Vec8 x) {
    const __m256i bits = _mm256_castps_si256(x.v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}
inline __m128i round_to(F16, Vec8 x) {
    return _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT);
}

}  // namespace detail

inline Vec8 load(const float* p, Full) {
    return Vec8::load(p);
}
inline Vec8 load(const float* p, Part part) {
    return _mm256_maskload_ps(p, detail::lane_mask(part));
}
template <class T>
Vec8 load(const T* p, Full) {
    return detail::widen(T{}, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline Vec8 load(const std::int8_t* p, Full) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

inline void store(float* p, Vec8 x, Full) {
    x.store(p);
}
inline void store(float* p, Vec8 x, Part part) {
    _mm256_maskstore_ps(p, detail::lane_mask(part), x.v);
}
template <class T>
void store(T* p, Vec8 x, Full) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), detail::round_to(T{}, x));
}

/// x as it reads back after being stored as T.
template <class T>
Vec8 stored_as(Vec8 x) {
    if constexpr (std::is_same_v<T, float>) {
        return x;
    } else {
        return detail::widen(T{}, detail::round_to(T{}, x));
    }
}

/// x with the inactive lanes of `other`.
inline Vec8 masked(Vec8 x, Full, Vec8) {
    return x;
}
inline Vec8 masked(Vec8 x, Part part, Vec8 other) {
    return _mm256_blendv_ps(other.v, x.v, _mm256_castsi256_ps(detail::lane_mask(part)));
}

/// Calls f(i, lanes) for the vectors at begin, begin + 8, ... in [begin, end).
void for_vectors(std::int64_t begin, std::int64_t end, const auto& f) {
    for_vectors_of<Vec8>(begin, end, f);
}

}  // namespace gptrain::cpu
