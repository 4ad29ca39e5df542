// The folder of a run's checkpoints: "step-000500" is the state after step 500. Names with ".tmp-"
// are unfinished saves or removals.
#pragma once

#include <cstdint>
#include <filesystem>
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

/// The committed checkpoints of a run, newest first, judged by name only. A missing folder holds
/// none.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder);

/// A new name in `folder` for an unfinished save or removal of `name`.
std::filesystem::path temporary_folder(const std::filesystem::path& folder,
                                       const std::string& name);

/// A folder with such a name. The destructor, or a signal that ends the process (signals.h),
/// removes it with its contents, unless it was renamed.
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

/// Removes, with a line for each, what failed or killed saves and removals left. Requires that none
/// is in progress and that no other run writes here.
void remove_leftovers(const std::filesystem::path& folder);

/// Renames the finished `temporary` to its final name, durably. An existing checkpoint of that name
/// is exchanged atomically and removed.
void commit_folder(const std::filesystem::path& temporary, const std::filesystem::path& final_path);

/// Keeps the `keep_last` newest checkpoints that verify (structure) and multiples of `keep_every`
/// (0: none); removes older ones. Ignores steps after `newest`, which belong to another course of
/// the run. A checkpoint is renamed before it is removed, so that nobody sees it half-removed.
/// Warns of what cannot be removed.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t newest,
                            std::int64_t keep_last, std::int64_t keep_every);

}  // namespace gptrain
