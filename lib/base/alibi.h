// The slopes of ALiBi.
#pragma once

#include <cmath>
#include <cstdint>

namespace gptrain {

/// Attention with linear biases (Press et al. 2021, "Train Short, Test Long", arXiv 2108.12409):
/// head n of N adds -slope(n) (i - j) to the score of a query at position i and a key at position
/// j. With P the largest power of 2 up to N, head n has the slope 2^(-8 (n + 1) / P). Heads from P
/// on take, in order, every other slope of 2 P heads: 2^(-4 (2 (n - P) + 1) / P).
struct Alibi {
    std::int64_t heads = 0;       ///< N, of the whole model; 0: no bias
    std::int64_t head_begin = 0;  ///< n of the first local head

    constexpr bool on() const { return heads > 0; }
    /// The slope of a local head.
    float slope(std::int64_t head) const { return std::exp2(log2_slope(head)); }
    /// Exact: a multiple of 1 / P.
    constexpr float log2_slope(std::int64_t head) const {
        std::int64_t power = 1;
        while (2 * power <= heads)
            power *= 2;
        const std::int64_t n = head_begin + head;
        const std::int64_t step = n < power ? 2 * (n + 1) : 2 * (n - power) + 1;
        return static_cast<float>(-4 * step) / static_cast<float>(power);
    }
};

}  // namespace gptrain
