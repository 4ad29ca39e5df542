// Rounding to bf16 up or down at random, with the probabilities that make the expected value exact:
// sums of updates that are smaller than half a unit in the last place are not lost. The random bits
// are a function of (seed, step, tensor name, global element, use), so they are the same on every
// mesh and after a resume.
#pragma once

#include "base/dtype.h"
#include "base/philox.h"

namespace gptrain {

enum class RoundedUse : std::uint32_t { moments = 1, weights = 2 };

/// The key of a tensor. Element i reads word i mod 4 of the block at the counter
/// (i / 4 low, i / 4 high, step, use); exp_avg and weights its lower 16 bits, exp_avg_sq the upper.
constexpr PhiloxKey rounding_key(std::uint64_t seed, std::string_view tensor) {
    return philox_stream(seed, name_hash(tensor), 1, 0);
}

/// Adds `random`, 16 bits, to the bits below those that are kept, and cuts them off. What is not
/// finite is only cut: an infinity and a quiet NaN stay what they are.
constexpr Bf16 to_bf16_stochastic(float x, std::uint32_t random) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return {static_cast<std::uint16_t>((bits + (finite ? random : 0)) >> 16)};
}

}  // namespace gptrain
