// The plain files that this process has read, so that no output takes the place of one.
#pragma once

#include <compare>
#include <filesystem>
#include <optional>
#include <sys/stat.h>

namespace gptrain {

/// Two paths with the same one lead to the same file.
struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;

    auto operator<=>(const FileIdentity&) const = default;
};

/// The identity of the file at the end of all links; empty if there is none.
std::optional<FileIdentity> identity_of(const std::filesystem::path& path);

/// Remembers a plain file and its path; `File` calls it for each that it opens to read. Devices,
/// pipes and folders are never inputs in this sense.
void note_input(const struct stat& status, const std::filesystem::path& path);

/// True if this process has opened the file at `path`, under any name, to read it, and the file is
/// still where it was: a new file may get the number of one that was removed.
bool is_input(const std::filesystem::path& path);

}  // namespace gptrain
