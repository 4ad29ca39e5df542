// CRC-32C (Castagnoli), the checksum of checkpoints and TensorBoard records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gptrain {

/// CRC-32C of `bytes` bytes at `data`, continuing from `before`, the CRC of preceding bytes (0 at
/// the start). Check value: crc32c("123456789", 9) == 0xE3069283.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0);

/// The CRC of two concatenated pieces, from their CRCs and the length of the second.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

/// A part's contribution to the CRC of a whole in which `bytes_after` bytes follow it. The CRC of
/// the whole is the exclusive or of its parts' contributions.
std::uint32_t crc32c_part(std::span<const std::byte> part, std::uint64_t bytes_after);

}  // namespace gptrain
