// Faults of paths and files that came with a command, whatever they are for.
#pragma once

#include <filesystem>
#include <string>

namespace gptrain {

/// The first variable of a shell in the path, such as "${SCRATCH}" or "$HOME", that no existing
/// folder or file spells; empty if there is none. gptrain replaces no variables.
std::string unexpanded_variable(const std::filesystem::path& path);

/// Error (usage) if `path`, which is about to be created, has such a variable.
void refuse_variables(const std::filesystem::path& path);

/// True if the open file is a pointer that git-LFS left in the place of a file.
bool is_lfs_pointer(int descriptor);

}  // namespace gptrain
