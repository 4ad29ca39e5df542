// Element types, and the host's 16-bit storage types.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/words.h"

namespace gptrain {

enum class DType : std::uint8_t { f32, bf16, f16, f8e4m3, f8e5m2, f64, u8, u16, i32, i64, i8 };

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
    switch (dtype) {
        case DType::f8e4m3:
        case DType::f8e5m2:
        case DType::i8:
        case DType::u8: return 1;
        case DType::bf16:
        case DType::f16:
        case DType::u16: return 2;
        case DType::f32:
        case DType::i32: return 4;
        case DType::f64:
        case DType::i64: return 8;
    }
    return 0;
}

/// The names in run specs, manifests and messages.
constexpr auto words_of(DType) {
    using enum DType;
    return std::to_array<Word<DType>>({{f32, "fp32"},
                                       {bf16, "bf16"},
                                       {f16, "fp16"},
                                       {f8e4m3, "fp8_e4m3"},
                                       {f8e5m2, "fp8_e5m2"},
                                       {f64, "fp64"},
                                       {i8, "i8"},
                                       {u8, "u8"},
                                       {u16, "u16"},
                                       {i32, "i32"},
                                       {i64, "i64"}});
}

/// bfloat16 as stored: the upper half of an fp32.
struct Bf16 {
    std::uint16_t bits;
    static constexpr DType dtype = DType::bf16;
};

/// IEEE half precision as stored.
struct F16 {
    std::uint16_t bits;
    static constexpr DType dtype = DType::f16;
};

/// Widens exactly.
constexpr float to_float(float x) {
    return x;
}
constexpr float to_float(Bf16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
constexpr float to_float(F16 x) {
    const std::uint32_t sign = (x.bits & 0x8000u) << 16;
    const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
    const std::uint32_t fraction = x.bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0)
        return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

/// Rounds to nearest even. NaN stays NaN; values out of range become infinite.
constexpr Bf16 to_bf16(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
constexpr F16 to_f16(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (magnitude < 0x38800000u) {
        // Subnormal in fp16: adding 0.5 aligns the last bits of fp16 and fp32.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return {static_cast<std::uint16_t>(sign |
                                           (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

template <class T>
constexpr T from_float(float x) {
    if constexpr (std::is_same_v<T, Bf16>) {
        return to_bf16(x);
    } else if constexpr (std::is_same_v<T, F16>) {
        return to_f16(x);
    } else {
        return x;
    }
}

}  // namespace gptrain
