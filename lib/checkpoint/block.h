// Reading the files of a checkpoint with every byte checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/file.h"
#include "checkpoint/manifest.h"

namespace gptrain {

/// Opens a file of the checkpoint in `folder`; one that is missing, not regular or of another size
/// than the manifest says is an Error (bad_input).
File open_listed(const std::filesystem::path& folder, const FileRecord& record);

/// All bytes of such a file in which no tensor lies. More than `limit` and damage are Errors
/// (bad_input).
std::string read_whole(const std::filesystem::path& folder, const FileRecord& record,
                       std::int64_t limit);

/// Size of block `index` of an extent; checkpoint_block_bytes but for the last one.
std::int64_t block_bytes(const ExtentRecord& extent, std::int64_t index);

/// Reads block `index` of an extent into the front of `buffer` and compares its checksum; returns
/// the part that it fills. Damage is an Error (bad_input) that names file, dataset and bytes.
std::span<const std::byte> read_block(const File& file, const TensorRecord& tensor,
                                      const ExtentRecord& extent, std::int64_t index,
                                      std::span<std::byte> buffer);

}  // namespace gptrain
