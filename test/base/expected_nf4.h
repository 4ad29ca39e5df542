// Written by make_nf4_fixture.py.
#pragma once

#include <cstdint>

namespace gptrain::test {

// clang-format off
constexpr std::uint8_t nf4_codes[] = {
    15, 240, 1, 54, 174, 20, 176, 93, 43, 28, 46, 97, 215, 32, 235, 134, 187, 171, 205, 224, 38,
    191, 41, 43, 8, 8, 27, 62, 234, 65, 236, 150, 203, 187, 205, 224, 124, 241, 125, 110, 60, 28,
    33, 196, 12, 104, 49, 254, 16, 255, 5, 122, 223, 141, 4, 197, 210, 200, 10, 46, 215, 47, 14,
    201, 220, 187, 0, 19, 223, 28, 242, 163, 177, 228, 230, 79, 170, 48, 31, 218, 237, 192, 0, 105,
    194, 90, 39, 231, 227, 25, 15, 118, 12, 215, 36, 20,
};

constexpr float nf4_scales[] = {
    0.966796875F, 0.0302734375F, 0.4765625F,
};

constexpr std::uint8_t nf4_nested_codes[] = {
    255, 2, 88,
};

constexpr float nf4_factors[] = {
    0.4912109375F, 0.4755859375F,
};

/// CRC-32C of the bytes of the same for a matrix of that many elements.
constexpr std::int64_t nf4_large = 38406;
constexpr std::uint32_t nf4_large_codes_crc = 0xf24da67d;
constexpr std::uint32_t nf4_large_scales_crc = 0x656fdcf8;
constexpr std::uint32_t nf4_large_nested_codes_crc = 0x8a7a0d00;
constexpr std::uint32_t nf4_large_factors_crc = 0x4a861f65;
constexpr std::uint32_t nf4_large_map_crc = 0x28f6b49c;
// clang-format on

}  // namespace gptrain::test
