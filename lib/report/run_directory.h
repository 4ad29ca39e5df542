// The output directory of a run: its layout, and the lock that keeps it to one run at a time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace gptrain {

/// Where things lie in an output directory.
struct RunPaths {
    std::filesystem::path folder;

    std::filesystem::path spec() const { return folder / "spec.yaml"; }
    std::filesystem::path metrics() const { return folder / "metrics.jsonl"; }
    std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
    std::filesystem::path cache() const { return folder / "cache"; }
    std::filesystem::path lock() const { return folder / ".lock"; }
};

/// An output directory held by this process until it ends, however it ends.
class RunDirectory {
public:
    /// Creates the folder where it is missing and takes its lock. A lock that another process holds
    /// is an Error (usage) naming that process; a folder that cannot be written to is an Error
    /// (io).
    explicit RunDirectory(const std::filesystem::path& folder);

    const RunPaths& paths() const { return paths_; }

    /// False once the folder was deleted or another one stands in its place. A file system that
    /// does not answer leaves it at true.
    bool in_place() const;

    /// Replaces spec.yaml; durable on return.
    void write_spec(std::string_view yaml) const { write_file_durably(paths_.spec(), yaml); }

private:
    RunPaths paths_;
    File folder_;
    File lock_;
};

}  // namespace gptrain
