// The FP8 formats of Micikevicius et al. 2022, "FP8 formats for deep learning" (arXiv 2209.05433),
// as stored.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace gptrain {

/// 4 exponent bits, 3 fraction bits; largest 448, no infinities.
struct F8E4M3 {
    std::uint8_t bits;
    static constexpr DType dtype = DType::f8e4m3;
    static constexpr int fraction_bits = 3;
    static constexpr int exponent_bias = 7;
    static constexpr float largest = 448;
    static constexpr std::uint8_t nan = 0x7f;
};

/// 5 exponent bits, 2 fraction bits; largest 57344. The upper byte of an fp16.
struct F8E5M2 {
    std::uint8_t bits;
    static constexpr DType dtype = DType::f8e5m2;
    static constexpr int fraction_bits = 2;
    static constexpr int exponent_bias = 15;
    static constexpr float largest = 57344;
    static constexpr std::uint8_t nan = 0x7f;
};

/// Widens exactly.
constexpr float to_float(F8E5M2 x) {
    return to_float(F16{static_cast<std::uint16_t>(x.bits << 8)});
}
constexpr float to_float(F8E4M3 x) {
    const std::uint32_t sign = (x.bits & 0x80u) << 24;
    const std::uint32_t magnitude = x.bits & 0x7fu;
    if (magnitude == F8E4M3::nan) return std::bit_cast<float>(sign | 0x7fc00000u);
    if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
    const float small = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(small) | sign);
}

/// Rounds to nearest even. Values beyond the largest number, infinity included, saturate; NaN stays
/// NaN.
template <class Fp8>
constexpr Fp8 to_fp8(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80u);
    if (x != x) return {static_cast<std::uint8_t>(sign | Fp8::nan)};
    const float magnitude = std::min(std::bit_cast<float>(bits & 0x7fffffffu), Fp8::largest);
    constexpr int dropped_bits = 23 - Fp8::fraction_bits;
    constexpr std::uint32_t smallest_exponent = 127 + 1 - Fp8::exponent_bias;
    const std::uint32_t whole = std::bit_cast<std::uint32_t>(magnitude);
    if (whole >> 23 < smallest_exponent) {
        // Subnormal: adding a power of two aligns the last bits of FP8 and fp32.
        constexpr std::uint32_t shift = (smallest_exponent + dropped_bits) << 23;
        const float shifted = magnitude + std::bit_cast<float>(shift);
        return {static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - shift))};
    }
    const std::uint32_t half = (1u << (dropped_bits - 1)) - 1;
    const std::uint32_t rounded = whole + half + (whole >> dropped_bits & 1u);
    const std::uint32_t rebiased = rounded - ((smallest_exponent - 1) << 23);
    return {static_cast<std::uint8_t>(sign | rebiased >> dropped_bits)};
}

}  // namespace gptrain
