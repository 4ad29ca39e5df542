// The CRC-32 of gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gptrain {

std::uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace gptrain
