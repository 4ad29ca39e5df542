// The folder of a run's checkpoints: "step-000500" is the state after step 500. Names with ".tmp-"
// are unfinished saves or removals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gptrain {

/// "step-000500", with more digits if needed.
std::string checkpoint_name(std::int64_t step);

/// The step in a name made by `checkpoint_name`; nothing for other names.
std::optional<std::int64_t> checkpoint_step(const std::string& name);

struct CheckpointFolder {
    std::int64_t step = 0;
    std::filesystem::path path;
};

/// The committed checkpoints of a run, newest first, judged by name only. A missing folder holds no
/// checkpoints.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder);

/// A folder with a temporary name (temporary_path) for `name`, an unfinished save. The destructor,
/// or a signal that ends the process (signals.h), removes it with its contents, unless it was
/// renamed.
class TemporaryFolder {
public:
    TemporaryFolder(const std::filesystem::path& parent, const std::string& name);
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder();
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// Removes, with a line for each, what failed or killed saves and removals left, and gives a
/// checkpoint its name back that a save was about to replace. Requires that no save is in progress
/// and that no other run writes here. `may_write`: an Error of it, after the folder has been listed
/// and before anything is changed, prevents that.
void remove_leftovers(const std::filesystem::path& folder,
                      const std::function<void()>& may_write = {});

/// Renames the finished `temporary` to its final name, durably. An existing checkpoint of that name
/// is exchanged for it, atomically where the file system can, and then removed. On Error (io) the
/// existing checkpoint keeps its name, or gets it back from remove_leftovers.
void commit_folder(const std::filesystem::path& temporary, const std::filesystem::path& final_path);

/// True if something has this path. Error (io) if the file system does not answer.
bool is_there(const std::filesystem::path& path);
/// True if nothing has this path. False if the disk cannot answer.
bool is_missing(const std::filesystem::path& path);

/// Removes a file, or a folder with all it holds, several files at a time; warns of what cannot be
/// removed. A missing one is removed.
void remove_or_warn(const std::filesystem::path& path);

/// Removes what processes that were killed left under temporary names of `path`.
void remove_abandoned(const std::filesystem::path& path);

}  // namespace gptrain
