// Whether a checkpoint is what was written.
#pragma once

#include <filesystem>

#include "checkpoint/manifest.h"

namespace gptrain {

enum class VerifyDepth {
    structure,   ///< manifest, size of every file, every byte that is not a tensor's
    everything,  ///< every byte
};

/// Throws Error (bad_input) that names the file, the dataset and the byte range of the first
/// damage, or Error (io) where a file cannot be read.
Manifest verify_checkpoint(const std::filesystem::path& folder, VerifyDepth depth);

}  // namespace gptrain
