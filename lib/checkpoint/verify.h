// Verification of checkpoints.
#pragma once

#include <filesystem>

#include "checkpoint/manifest.h"

namespace gptrain {

enum class VerifyDepth {
    structure,  ///< manifest, file sizes, and every byte outside tensors
    full,       ///< every byte
};

/// Throws Error (bad_input) with the file, dataset and byte range of the first damage, or Error
/// (io) if a file cannot be read.
Manifest verify_checkpoint(const std::filesystem::path& folder, VerifyDepth depth);

}  // namespace gptrain
