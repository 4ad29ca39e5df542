// Numbers in a varying number of bytes, as protocol buffers, Thrift, Parquet and Snappy have them:
// 7 bits in each byte, the lowest first.
#pragma once

#include <cstdint>
#include <optional>

namespace gptrain {

/// The number whose bytes `next_byte` returns one after another; nothing if `most_bytes` of them do
/// not end it. Bits above 64 are lost.
std::optional<std::uint64_t> read_varint(const auto& next_byte, int most_bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < most_bytes; ++i) {
        const std::uint64_t byte = next_byte();
        value |= (byte & 0x7F) << (7 * i);
        if (byte < 0x80) return value;
    }
    return std::nullopt;
}

/// The bytes of the longest number of 32 and of 64 bits.
constexpr int varint_bytes_32 = 5;
constexpr int varint_bytes_64 = 10;

/// The two's complement of a signed number that was stored as 0, -1, 1, -2, ...
constexpr std::uint64_t from_zigzag(std::uint64_t value) {
    return (value >> 1) ^ (0 - (value & 1));
}

}  // namespace gptrain
