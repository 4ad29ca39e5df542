// What `gptrain inspect` prints about checkpoints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gptrain {

/// A few lines about one checkpoint. It is verified first: its structure, with `everything` every
/// byte; damage is the Error of `verify_checkpoint`.
std::vector<std::string> describe_checkpoint(const std::filesystem::path& folder, bool everything);

struct FolderDescription {
    std::vector<std::string> lines;  ///< one for each committed checkpoint, newest first
    bool newest_valid = true;  ///< the newest committed one verifies, or none was ever committed
};

/// A line for each checkpoint of a run's `checkpoints/` folder. The newest is always verified in
/// full, the others in structure, with `everything` in full as well.
FolderDescription describe_checkpoints(const std::filesystem::path& folder, bool everything);

}  // namespace gptrain
