// Files that have a temporary name until they are complete.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace gptrain {

/// The text that marks temporary names.
inline constexpr std::string_view temporary_mark = ".tmp-";

/// A new name next to `target` for a file that is not finished: "TARGET.tmp-PID-NUMBER-HOST".
std::filesystem::path temporary_path(const std::filesystem::path& target);

/// True for a temporary name whose process on this machine is gone.
bool is_abandoned(const std::filesystem::path& temporary);

/// The temporary names of `target` whose processes on this machine are gone.
std::vector<std::filesystem::path> abandoned_paths(const std::filesystem::path& target);

/// Removes the files among them, as far as the system allows.
void remove_abandoned_files(const std::filesystem::path& target);

/// The temporary name of a file. The destructor, or a signal that ends the process (signals.h),
/// removes the file unless it was moved into place.
class TemporaryFile {
public:
    /// `make` creates the file and returns its path; signals are held back meanwhile.
    explicit TemporaryFile(const std::function<std::filesystem::path()>& make);
    /// The same for a file that the caller creates.
    explicit TemporaryFile(const std::filesystem::path& path);
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile();

    const std::filesystem::path& path() const { return path_; }
    /// Renames it to its final name; failure is an Error (io).
    void move_to(const std::filesystem::path& target);

private:
    std::filesystem::path path_;
    bool moved_ = false;
};

/// Error (usage) if what is to be replaced is anything but a plain file.
void require_replaceable(const std::filesystem::path& target);

/// An output file of which one process at a time writes the unfinished contents, under the name
/// "TARGET.tmp". The file is locked while it has that name, so what a killed process left is taken
/// over, and what another process writes is not touched.
class LockedFile {
public:
    /// Empty. Error (io) if another process writes the same target; a file system that has no locks
    /// does not find that out. The target must be replaceable (require_replaceable).
    explicit LockedFile(const std::filesystem::path& target);

    File& file() { return *file_; }
    void move_into_place();

private:
    std::filesystem::path target_;
    std::optional<File> file_;  ///< closed, and so unlocked, after its name is gone
    TemporaryFile temporary_;
};

/// Removes the unfinished contents of a LockedFile that a killed process left under their temporary
/// name. They stay if a process has them locked, and where the file system has no locks.
void remove_leftover(const std::filesystem::path& temporary);

/// Replaces `path`, a file of the program, atomically by a file with these bytes: after any crash
/// it has either the old or the new contents. Temporary file, fsync, rename, fsync of the folder.
/// Files that a user names as outputs: output_file.h.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

}  // namespace gptrain
