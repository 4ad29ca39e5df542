#include "cpu/random.h"

#include "cpu/parallel.h"
#include "cpu/philox8.h"
#include "cpu/vector_math.h"

namespace gptrain::cpu {
namespace {

/// (word / 2^8 + above) / 2^24, exact.
Vec8 uniform(__m256i words, float above) {
    return (Vec8(_mm256_cvtepi32_ps(_mm256_srli_epi32(words, 8))) + Vec8(above)) * Vec8(0x1p-24f);
}

/// Draws 32 elements, starting at a multiple of 4.
void draw(PhiloxKey key, std::int64_t element, Vec8 std, float* out) {
    const std::int64_t block = element / 4;
    const __m256i low = counters_from(block & 0xffffffff);
    // Lanes that wrapped around carry into the high word.
    const __m256i wrapped = _mm256_cmpgt_epi32(
        _mm256_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(block) ^ 0x80000000u)),
        _mm256_xor_si256(low, _mm256_set1_epi32(static_cast<int>(0x80000000u))));
    const __m256i high =
        _mm256_sub_epi32(_mm256_set1_epi32(static_cast<int>(block >> 32)), wrapped);
    const PhiloxBlocks8 words =
        philox8({{low, high, _mm256_setzero_si256(), _mm256_setzero_si256()}}, key);
    PhiloxBlocks8 normal;
    for (int pair = 0; pair < 4; pair += 2) {
        const Vec8 radius = std * sqrt(Vec8(-2.0f) * log(uniform(words.words[pair], 1)));
        const SinCos<Vec8> turn = sincos_turns(uniform(words.words[pair + 1], 0));
        normal.words[pair] = _mm256_castps_si256((radius * turn.cosine).v);
        normal.words[pair + 1] = _mm256_castps_si256((radius * turn.sine).v);
    }
    std::uint32_t bits[32];
    store_in_order(normal, bits);
    std::memcpy(out, bits, sizeof bits);
}

/// Draws elements [begin, begin + count) of the whole tensor.
void draw_run(PhiloxKey key, std::int64_t begin, std::int64_t count, Vec8 std, float* out) {
    std::int64_t at = begin / 4 * 4;
    while (at < begin + count) {
        if (at >= begin && at + 32 <= begin + count) {
            draw(key, at, std, out + (at - begin));
        } else {
            float values[32];
            draw(key, at, std, values);
            const std::int64_t first = std::max(at, begin);
            const std::int64_t last = std::min(at + 32, begin + count);
            std::copy(values + (first - at), values + (last - at), out + (first - begin));
        }
        at += 32;
    }
}

}  // namespace

void run(const InitNormal& args) {
    const Shard& shard = args.shard;
    const PhiloxKey key = philox_stream(args.seed, name_hash(shard.name), 0, 0);
    auto* out = args.x.as<float>();
    const int last = shard.global.rank() - 1;
    // The box's innermost dim is contiguous in the whole tensor. If the box is the whole tensor,
    // all elements are.
    const bool whole = shard.box.extent == shard.global;
    const std::int64_t run_length = whole ? shard.global.elements() : shard.box.extent[last];
    parallel_ranges(shard.elements(), 16, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t i = begin;
        while (i < end) {
            const std::int64_t flat = shard.flat_begin + i;
            const std::int64_t count = std::min(end - i, run_length - flat % run_length);
            draw_run(key, shard.global_index(flat), count, args.std, out + i);
            i += count;
        }
    });
}

}  // namespace gptrain::cpu
