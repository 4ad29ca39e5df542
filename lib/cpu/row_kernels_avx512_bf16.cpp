// Row kernels that gain from the instruction that rounds to bf16 (AVX512_BF16). It flushes denormal
// numbers to 0, so only those whose results are none use it.
#include "cpu/row_kernels.h"
#include "cpu/vector16.h"

namespace gptrain::cpu {
namespace {

/// Scales are 0 or at least 2^-107 (ToInt8), so no product is a denormal number.
void from_int8(const std::int8_t* values, float scale, Bf16* row, std::int64_t count) {
    const auto product = [&](std::int64_t at, auto lanes) {
        return load(values + at, lanes) * Vec16(scale);
    };
    constexpr FullLanes<Vec16> all;
    constexpr std::int64_t size = Vec16::size;
    std::int64_t i = 0;
    for (; i + 2 * size <= count; i += 2 * size) {
        const __m512bh pair = _mm512_cvtne2ps_pbh(product(i + size, all).v, product(i, all).v);
        _mm512_storeu_si512(row + i, (__m512i)pair);
    }
    for_vectors_of<Vec16>(
        i, count, [&](std::int64_t at, auto lanes) { store(row + at, product(at, lanes), lanes); });
}

}  // namespace

RowKernels<Bf16> avx512_bf16_row_kernels() {
    RowKernels<Bf16> kernels = avx512_row_kernels<Bf16>();
    kernels.from_int8 = from_int8;
    return kernels;
}

}  // namespace gptrain::cpu
