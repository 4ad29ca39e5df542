// LZ4's blocks (lz4/lz4, lz4_Block_format.md), bare and as Hadoop frames them. A decoder here is
// smaller than another library to install.
#pragma once

#include <cstddef>
#include <span>

namespace gptrain {

/// Decompresses a block into exactly out.size() bytes. Error (bad_input), without a place, if it is
/// damaged or has another size.
void unpack_lz4(std::span<const std::byte> block, std::span<std::byte> out);

/// The same for Hadoop's frames: the size of a part and that of its compressed block, 4 bytes each,
/// the high byte first, then the block. Data that is not framed like this is a bare block, as old
/// writers have it under the same name.
void unpack_hadoop_lz4(std::span<const std::byte> data, std::span<std::byte> out);

}  // namespace gptrain
