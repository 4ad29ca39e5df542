// Finds checkpoints in a folder.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/restart_point.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The checkpoints in a checkpoints/ folder, newest first.
std::vector<std::filesystem::path> checkpoint_paths(const std::filesystem::path& checkpoints);

/// The same of a folder named by the user: a checkpoint, a checkpoints/ folder or an output
/// directory. Error (usage) if there is none.
std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& folder);

/// The newest valid one of checkpoints_at(folder). All ranks call it. Error (usage) if there is
/// none.
RestartPoint open_checkpoint(const std::filesystem::path& folder, const MpiSession& ranks);

}  // namespace gptrain
