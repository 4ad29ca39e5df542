// Verification of checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "checkpoint/manifest.h"

namespace gptrain {

enum class VerifyDepth {
    structure,  ///< manifest, file sizes, and every byte outside tensors
    full,       ///< every byte
};

/// Throws Error (bad_input) with file, dataset and byte range of damage, or Error (io) if a file
/// cannot be read. A few threads read. With depth structure, a model.h5 that is lost or damaged is
/// a warning.
Manifest verify_checkpoint(const std::filesystem::path& folder, VerifyDepth depth);

/// Verifies the structure of part `part` of `parts` of a checkpoint: some of its shard files, with
/// their records, and in part 0 its other files. So several ranks share the work. A model.h5 that
/// is lost or damaged is a warning.
void verify_part(const std::filesystem::path& folder, const CheckpointIndex& index, int part,
                 int parts);

/// Verifies the structure of a shard file, and its record.
void verify_shard(const std::filesystem::path& folder, const FileRecord& shard,
                  const FileRecord& record);

/// Verifies a file that holds no tensors.
void verify_whole(const std::filesystem::path& folder, const FileRecord& file);

/// The damage that verify_whole finds; empty if the file is sound. Error (io) if it cannot be read.
std::string damage_to(const std::filesystem::path& folder, const FileRecord& file);

/// True if the error means that a checkpoint, or a copy of one, is damaged or cannot be read: then
/// another one may serve.
bool is_unusable(const Error& error);

/// Runs `check`, which reads what was just written. Damage is then a fault of the disk: Error (io).
void as_written(const std::function<void()>& check);

}  // namespace gptrain
