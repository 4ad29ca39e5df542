// Dynamic 8-bit numbers (Dettmers et al. 2022, "8-bit optimizers via block-wise quantization",
// arXiv 2110.02861): codes of magnitudes between 0 and 1 that are exact to a few percent over seven
// decades. Values of a block share a scale, the largest magnitude among them.
//
// Decade d = 0..6 holds the midpoints of n equal parts of [0.1, 1], times 10^(d - 6); n is 2^d with
// signs and 2^(d + 1) without. Their index counts from 1 on; 0 is 0, and the last index is 1. A
// code is the index, or with signs 127 plus or minus it: then -1 has no code.
#pragma once

#include <cstdint>

namespace gptrain {

/// Elements of a block, along the row-major order of a whole tensor.
constexpr std::int64_t moment_block = 256;
/// Matrices with fewer elements, and all vectors, keep fp32 moments.
constexpr std::int64_t least_small_moments = 4096;

constexpr bool has_small_moments(bool matrix, std::int64_t elements) {
    return matrix && elements >= least_small_moments;
}

struct DynamicDecade {
    float lower = 0;   ///< magnitudes above it are in this decade or a higher one
    float factor = 0;  ///< part of a magnitude a: a factor + offset, in fp32 with one rounding,
    float offset = 0;  ///< cut to a whole number, limited to [0, last]
    std::int32_t last = 0;
    std::int32_t first = 0;  ///< index of part 0
    double step = 0;         ///< the value of part k: k step + start
    double start = 0;
};

struct DynamicMap {
    static constexpr int count = 7;
    static constexpr std::int32_t zero_with_sign = 127;  ///< the code of 0
    DynamicDecade decades[count];
    float one_above = 1;   ///< magnitudes above it become 1
    std::int32_t one = 0;  ///< the index of 1

    /// The magnitude of an index: the fp32 number nearest to its value.
    constexpr float value(std::int32_t index) const {
        if (index == 0) return 0;
        if (index == one) return 1;
        int d = 0;
        while (d + 1 < count && index >= decades[d + 1].first)
            ++d;
        const DynamicDecade& decade = decades[d];
        return static_cast<float>((index - decade.first) * decade.step + decade.start);
    }
};

constexpr DynamicMap dynamic_map(bool with_sign) {
    DynamicMap map;
    double power = 1e-6;
    std::int32_t parts = with_sign ? 1 : 2;
    std::int32_t first = 1;
    double last_value = 0;  // of the decade before
    for (DynamicDecade& decade : map.decades) {
        const double step = power * 0.9 / parts;
        const double start = power * 0.1 + step / 2;
        decade = {.lower = first == 1 ? 0 : static_cast<float>((last_value + start) / 2),
                  .factor = static_cast<float>(1 / step),
                  .offset = static_cast<float>(-parts / 9.0),
                  .last = parts - 1,
                  .first = first,
                  .step = step,
                  .start = start};
        last_value = start + (parts - 1) * step;
        first += parts;
        parts *= 2;
        power *= 10;
    }
    map.one_above = static_cast<float>((last_value + 1) / 2);
    map.one = first;
    return map;
}

}  // namespace gptrain
