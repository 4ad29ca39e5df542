// Reads checkpoint files and verifies every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/file.h"
#include "checkpoint/manifest.h"

namespace gptrain {

/// Opens a file of the checkpoint in `folder`. A file that is missing, not regular or not of the
/// manifest's size is an Error (bad_input).
File open_listed(const std::filesystem::path& folder, const FileRecord& record);

/// All bytes of a file that holds no tensors. More than `limit` bytes, or damage, is an Error
/// (bad_input).
std::string read_whole(const std::filesystem::path& folder, const FileRecord& record,
                       std::int64_t limit);

/// The size of block `index` of an extent: checkpoint_block_bytes, except for the last one.
std::int64_t block_bytes(const ExtentRecord& extent, std::int64_t index);

/// Reads block `index` of an extent to the front of `buffer` and verifies its checksum; returns the
/// part it fills. Damage is an Error (bad_input) that names file, dataset and bytes.
std::span<const std::byte> read_block(const File& file, const TensorRecord& tensor,
                                      const ExtentRecord& extent, std::int64_t index,
                                      std::span<std::byte> buffer);

}  // namespace gptrain
