// Sixteen floats at a time (AVX-512F): what vector_math.h and the kernels of tiles and rows need of
// vector8.h. Only for code that runs after a check of the CPU. Each including source is compiled
// for its own instruction set, so nothing here is shared between them (hence the anonymous
// namespace).
#pragma once

#include <immintrin.h>

#include "base/dtype.h"
#include "cpu/lanes.h"

namespace gptrain::cpu {
namespace {

/// Same interface as Vec8.
struct Vec16 {
    static constexpr int size = 16;
    __m512 v;

    Vec16() = default;
    Vec16(__m512 x) : v(x) {}                 // NOLINT: implicit conversion intended
    Vec16(float x) : v(_mm512_set1_ps(x)) {}  // NOLINT: broadcasts a number

    static Vec16 load(const float* p) { return _mm512_loadu_ps(p); }
    void store(float* p) const { _mm512_storeu_ps(p, v); }

    friend Vec16 operator+(Vec16 a, Vec16 b) { return _mm512_add_ps(a.v, b.v); }
    friend Vec16 operator-(Vec16 a, Vec16 b) { return _mm512_sub_ps(a.v, b.v); }
    friend Vec16 operator*(Vec16 a, Vec16 b) { return _mm512_mul_ps(a.v, b.v); }
    friend Vec16 operator/(Vec16 a, Vec16 b) { return _mm512_div_ps(a.v, b.v); }
    friend Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
    friend Vec16 fnma(Vec16 a, Vec16 b, Vec16 c) { return _mm512_fnmadd_ps(a.v, b.v, c.v); }
    friend Vec16 min(Vec16 a, Vec16 b) { return _mm512_min_ps(a.v, b.v); }
    friend Vec16 max(Vec16 a, Vec16 b) { return _mm512_max_ps(a.v, b.v); }
    friend Vec16 round(Vec16 a) {
        return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    friend Vec16 times_power_of_two(Vec16 a, Vec16 n) { return _mm512_scalef_ps(a.v, n.v); }
    friend Vec16 select_less(Vec16 a, Vec16 b, Vec16 x, Vec16 y) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v);
    }

    float sum() const { return _mm512_reduce_add_ps(v); }
    float maximum() const { return _mm512_reduce_max_ps(v); }
};

namespace detail {

inline __mmask16 lane_mask(PartLanes<Vec16> part) {
    return static_cast<__mmask16>((1U << part.count) - 1);
}

inline Vec16 widen(Bf16, __m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline Vec16 widen(F16, __m256i bits) {
    return _mm512_cvtph_ps(bits);
}

#ifdef __AVX512BF16__
/// Same as to_bf16, but denormal numbers become 0, as they do in oneDNN's GEMMs.
inline __m256i round_to(Bf16, Vec16 x) {
    return (__m256i)_mm512_cvtneps_pbh(x.v);
}
#else
/// Same as to_bf16: nearest even, NaN stays NaN.
inline __m256i round_to(Bf16, Vec16 x) {
    const __m512i bits = _mm512_castps_si512(x.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16));
}
#endif
inline __m256i round_to(F16, Vec16 x) {
    return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT);
}

}  // namespace detail

inline Vec16 load(const float* p, FullLanes<Vec16>) {
    return Vec16::load(p);
}
inline Vec16 load(const float* p, PartLanes<Vec16> part) {
    return _mm512_maskz_loadu_ps(detail::lane_mask(part), p);
}
template <class T>
Vec16 load(const T* p, FullLanes<Vec16>) {
    return detail::widen(T{}, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec16 load(const std::int8_t* p, FullLanes<Vec16>) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

inline void store(float* p, Vec16 x, FullLanes<Vec16>) {
    x.store(p);
}
inline void store(float* p, Vec16 x, PartLanes<Vec16> part) {
    _mm512_mask_storeu_ps(p, detail::lane_mask(part), x.v);
}
template <class T>
void store(T* p, Vec16 x, FullLanes<Vec16>) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), detail::round_to(T{}, x));
}

/// x with the inactive lanes of `other`.
inline Vec16 masked(Vec16 x, FullLanes<Vec16>, Vec16) {
    return x;
}
inline Vec16 masked(Vec16 x, PartLanes<Vec16> part, Vec16 other) {
    return _mm512_mask_blend_ps(detail::lane_mask(part), other.v, x.v);
}

}  // namespace
}  // namespace gptrain::cpu
