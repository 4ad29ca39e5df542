// The output of `gptrain inspect` about checkpoints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gptrain {

/// A few lines about one checkpoint, after verifying its structure, or with `everything` every
/// byte. Damage is an Error, as in `verify_checkpoint`.
std::vector<std::string> describe_checkpoint(const std::filesystem::path& folder, bool everything);

struct FolderDescription {
    std::vector<std::string> lines;  ///< one per committed checkpoint, newest first
    bool newest_valid = true;        ///< the newest committed one verifies, or there is none
};

/// A line for each checkpoint in a run's `checkpoints/` folder. The newest is always verified in
/// full; the others in structure, or with `everything` in full.
FolderDescription describe_checkpoints(const std::filesystem::path& folder, bool everything);

/// "HDF5 1.10.8": the library in use.
std::string hdf5_version();

}  // namespace gptrain
