// Snappy's raw blocks (google/snappy, format_description.txt). A decoder here is smaller than
// another library to install.
#pragma once

#include <cstddef>
#include <span>

namespace gptrain {

/// Decompresses a block into exactly out.size() bytes. Error (bad_input), without a place, if it is
/// damaged or has another size.
void unpack_snappy(std::span<const std::byte> block, std::span<std::byte> out);

}  // namespace gptrain
