// Sixteen floats at a time (AVX-512F): the vector operations that vector_math.h and
// tile_kernels_impl.h need. Only for code that runs after a check of the CPU.
#pragma once

#include <immintrin.h>

namespace gptrain::cpu {

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
    friend Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
    friend Vec16 fnma(Vec16 a, Vec16 b, Vec16 c) { return _mm512_fnmadd_ps(a.v, b.v, c.v); }
    friend Vec16 min(Vec16 a, Vec16 b) { return _mm512_min_ps(a.v, b.v); }
    friend Vec16 max(Vec16 a, Vec16 b) { return _mm512_max_ps(a.v, b.v); }
    friend Vec16 round(Vec16 a) {
        return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    friend Vec16 power_of_two(Vec16 n) {
        const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
        return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
    }
    friend Vec16 select_less(Vec16 a, Vec16 b, Vec16 x, Vec16 y) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v);
    }
};

}  // namespace gptrain::cpu
