#include "codec/crc32.h"

#include <zlib.h>

namespace gptrain {

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
    const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
    return static_cast<std::uint32_t>(::crc32_z(0, data, bytes.size()));
}

}  // namespace gptrain
