// Row kernels that gain from the instruction that rounds to bf16 (AVX512_BF16). It flushes denormal
// numbers to 0, so only those whose results are none use it.
#include <algorithm>
#include <immintrin.h>

#include "cpu/row_kernels.h"

namespace gptrain::cpu {
namespace {

__mmask16 first_lanes(std::int64_t count) {
    return static_cast<__mmask16>((1U << std::clamp<std::int64_t>(count, 0, 16)) - 1);
}

/// Scales are 0 or at least 2^-107 (ToInt8), so no product is a denormal number.
void from_int8(const std::int8_t* values, float scale, Bf16* row, std::int64_t count) {
    const __m512 factor = _mm512_set1_ps(scale);
    const auto product = [&](const std::int8_t* bytes) {
        const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
        return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen)), factor);
    };
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m512bh rounded = _mm512_cvtne2ps_pbh(product(values + i + 16), product(values + i));
        _mm512_storeu_si512(row + i, (__m512i)rounded);
    }
    for (; i < count; i += 16) {
        const std::int64_t left = std::min<std::int64_t>(count - i, 16);
        std::int8_t bytes[16] = {};
        std::copy_n(values + i, left, bytes);
        const auto rounded = (__m256i)_mm512_cvtneps_pbh(product(bytes));
        _mm512_mask_cvtepi32_storeu_epi16(row + i, first_lanes(left),
                                          _mm512_cvtepu16_epi32(rounded));
    }
}

}  // namespace

RowKernels<Bf16> avx512_bf16_row_kernels() {
    RowKernels<Bf16> kernels = avx512_row_kernels<Bf16>();
    kernels.from_int8 = from_int8;
    return kernels;
}

}  // namespace gptrain::cpu
