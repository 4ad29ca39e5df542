#include "stored/find_checkpoint.h"

#include <utility>

#include "base/file.h"
#include "checkpoint/folder.h"

namespace gptrain {
namespace {

bool is_checkpoint(const std::filesystem::path& folder) {
    return std::filesystem::exists(folder / "manifest.json");
}

/// The folder of checkpoints in `folder`, which is not itself a checkpoint.
std::filesystem::path checkpoints_of(const std::filesystem::path& folder) {
    const std::filesystem::path inside = folder / "checkpoints";
    return std::filesystem::is_directory(inside) ? inside : folder;
}

constexpr std::string_view usage_hint = "; give a checkpoint (step-...) or an output directory";

void require_folder(const std::filesystem::path& folder) {
    const auto type = require_path(folder, ExitCode::usage, "folder", usage_hint);
    if (type == std::filesystem::file_type::directory) return;
    fail(ExitCode::usage, folder.string(), ": is a ", named_yaml(folder) ? "YAML " : "",
         "file, not a folder", usage_hint);
}

}  // namespace

std::vector<std::filesystem::path> checkpoint_paths(const std::filesystem::path& checkpoints) {
    std::vector<std::filesystem::path> paths;
    for (const CheckpointFolder& checkpoint : list_checkpoints(checkpoints))
        paths.push_back(checkpoint.path);
    return paths;
}

std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& folder) {
    require_folder(folder);
    if (is_checkpoint(folder)) return {folder};
    std::vector<std::filesystem::path> paths = checkpoint_paths(checkpoints_of(folder));
    if (paths.empty()) {
        const bool ends_in_slash = folder.filename().empty();
        if (checkpoint_step((ends_in_slash ? folder.parent_path() : folder).filename()))
            fail(ExitCode::usage, folder.string(),
                 ": is not a complete checkpoint: it has no manifest.json; give another one");
        fail(ExitCode::usage, folder.string(), ": no checkpoint found", usage_hint);
    }
    return paths;
}

RestartPoint open_checkpoint(const std::filesystem::path& folder, const MpiSession& ranks) {
    std::vector<std::filesystem::path> candidates;
    ranks.run_on_first([&] { candidates = checkpoints_at(folder); });
    return *RestartPoint::find(std::move(candidates), ranks);
}

}  // namespace gptrain
