// The folder of a run's checkpoints: "step-000500" is the state after step 500. Anything with
// ".tmp-" in its name is an unfinished save or removal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gptrain {

/// "step-000500"; more digits where six do not do.
std::string checkpoint_name(std::int64_t step);

/// The step in a name made by `checkpoint_name`; nothing for any other name.
std::optional<std::int64_t> checkpoint_step(const std::string& name);

struct CheckpointFolder {
    std::int64_t step = 0;
    std::filesystem::path path;
};

/// The committed checkpoints of a run, newest first, by their names alone. A missing folder holds
/// none.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder);

/// A new name in `folder` for an unfinished save or removal of `name`.
std::filesystem::path temporary_folder(const std::filesystem::path& folder,
                                       const std::string& name);

/// A folder with such a name, which goes with its contents unless it was given another name.
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

/// Removes what saves and removals left that died or failed, with a line for each. None is under
/// way, and the caller is the only run that writes here.
void remove_leftovers(const std::filesystem::path& folder);

/// Gives the finished `temporary` its name and makes that durable. A checkpoint that has the name
/// already is exchanged in one step and removed.
void commit_folder(const std::filesystem::path& temporary, const std::filesystem::path& final_path);

/// Removes checkpoints older than the `keep_last` newest ones that verify (structure), except
/// multiples of `keep_every` (0: none). Only steps up to `newest` count or go: later ones belong to
/// another course of the run. A checkpoint first loses its name, so that it is never seen half
/// removed. What cannot be removed is a warning.
void remove_old_checkpoints(const std::filesystem::path& folder, std::int64_t newest,
                            std::int64_t keep_last, std::int64_t keep_every);

}  // namespace gptrain
