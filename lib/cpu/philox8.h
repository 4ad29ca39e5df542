// Philox (base/philox.h) on eight counters at a time.
#pragma once

#include "base/philox.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

/// words[w] holds word w of the eight blocks, one per lane.
struct PhiloxBlocks8 {
    __m256i words[4];
};

namespace detail {

struct Product8 {
    __m256i high;
    __m256i low;
};

/// High and low halves of eight 32 x 32 bit products.
inline Product8 multiply(__m256i a, __m256i factor) {
    const __m256i even = _mm256_mul_epu32(a, factor);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
    return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa),
            _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa)};
}

}  // namespace detail

inline PhiloxBlocks8 philox8(const PhiloxBlocks8& counters, PhiloxKey key) {
    __m256i c0 = counters.words[0], c1 = counters.words[1];
    __m256i c2 = counters.words[2], c3 = counters.words[3];
    const __m256i factor_a = _mm256_set1_epi32(static_cast<int>(0xD2511F53u));
    const __m256i factor_b = _mm256_set1_epi32(static_cast<int>(0xCD9E8D57u));
    for (int round = 0; round < 10; ++round) {
        const detail::Product8 a = detail::multiply(c0, factor_a);
        const detail::Product8 b = detail::multiply(c2, factor_b);
        c0 = _mm256_xor_si256(_mm256_xor_si256(b.high, c1),
                              _mm256_set1_epi32(static_cast<int>(key.low)));
        c2 = _mm256_xor_si256(_mm256_xor_si256(a.high, c3),
                              _mm256_set1_epi32(static_cast<int>(key.high)));
        c1 = b.low;
        c3 = a.low;
        key.low += 0x9E3779B9u;
        key.high += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

/// begin, begin + 1, ... begin + 7
inline __m256i counters_from(std::int64_t begin) {
    return _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(begin)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Stores the 32 words block by block: block 0 word 0, block 0 word 1, ...
inline void store_in_order(const PhiloxBlocks8& blocks, std::uint32_t* out) {
    const __m256i* w = blocks.words;
    const __m256i low01 = _mm256_unpacklo_epi32(w[0], w[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(w[0], w[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(w[2], w[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(w[2], w[3]);
    const __m256i blocks04 = _mm256_unpacklo_epi64(low01, low23);
    const __m256i blocks15 = _mm256_unpackhi_epi64(low01, low23);
    const __m256i blocks26 = _mm256_unpacklo_epi64(high01, high23);
    const __m256i blocks37 = _mm256_unpackhi_epi64(high01, high23);
    auto* to = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(blocks04, blocks15, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(blocks26, blocks37, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(blocks04, blocks15, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(blocks26, blocks37, 0x31));
}

}  // namespace gptrain::cpu
