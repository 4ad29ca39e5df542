// Whether a checkpoint is what was written.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/manifest.h"

namespace gptrain {

enum class VerifyDepth {
    structure,   ///< manifest, size of every file, every byte that is not a tensor's
    everything,  ///< every byte
};

/// Throws Error (bad_input) that names the file, the dataset and the byte range of the first
/// damage, or Error (io) where a file cannot be read.
Manifest verify_checkpoint(const std::filesystem::path& folder, VerifyDepth depth);

struct ValidCheckpoint {
    std::filesystem::path folder;
    Manifest manifest;
};

/// The newest checkpoint of a run's `checkpoints/` folder whose every byte is right; a damaged one
/// is passed over with a warning. Nothing if none was ever committed; if there are some and all are
/// damaged, Error (bad_input).
std::optional<ValidCheckpoint> newest_valid_checkpoint(const std::filesystem::path& folder);

}  // namespace gptrain
