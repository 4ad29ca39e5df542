// numpy's legacy generator, numpy.random.RandomState(seed).shuffle, bit for bit.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace gptrain {

/// numpy.random.RandomState: MT19937 seeded with one integer. numpy takes seeds below 2^32; a
/// larger seed is reduced to its low 32 bits.
class NumpyRandom {
public:
    explicit NumpyRandom(std::uint64_t seed) : words_(static_cast<std::uint32_t>(seed)) {}

    /// Uniform in [0, max]: words masked to the bits of max, drawn until one is at most max. Above
    /// 32 bits a draw is two words, the high one first.
    std::uint64_t interval(std::uint64_t max) {
        std::uint64_t mask = max;
        for (int shift = 1; shift < 64; shift *= 2)
            mask |= mask >> shift;
        std::uint64_t value = 0;
        if (max == 0) return value;
        do {
            value = words_();
            if (max > 0xffffffffu) value = value << 32 | words_();
            value &= mask;
        } while (value > max);
        return value;
    }

    /// Fisher-Yates, from the last element down.
    template <class T>
    void shuffle(std::span<T> values) {
        for (std::size_t i = values.size(); i-- > 1;)
            std::swap(values[i], values[interval(i)]);
    }

private:
    std::mt19937 words_;
};

}  // namespace gptrain
