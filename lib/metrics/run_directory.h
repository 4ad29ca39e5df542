// The output directory of a run: its layout, and the lock that limits it to one run at a time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace gptrain {

/// Paths in an output directory.
struct RunPaths {
    std::filesystem::path folder;

    std::filesystem::path spec() const { return folder / "spec.yaml"; }
    std::filesystem::path metrics() const { return folder / "metrics.jsonl"; }
    std::filesystem::path checkpoints() const { return folder / "checkpoints"; }
    std::filesystem::path cache() const { return folder / "cache"; }
    /// Which local copies the run may continue from (LocalCourse).
    std::filesystem::path local_copies() const { return folder / "local-copies"; }
    /// The measurements of gptrain plan --measure.
    std::filesystem::path measured() const { return folder / "measured.jsonl"; }
    /// The results that gptrain eval --task --json wrote here, for the run's report.
    std::filesystem::path tasks() const { return folder / "tasks.json"; }
    /// NCCL's report on the last hang.
    std::filesystem::path nccl_report() const { return folder / "hang-nccl.txt"; }
    std::filesystem::path lock() const { return folder / ".lock"; }
};

/// An output directory locked by this process until it ends, even if it is killed.
class RunDirectory {
public:
    /// Creates the folder if it is missing and takes its lock. A lock held by another process is an
    /// Error (`if_held`) that names the process; one that a later start of the job (GPTRAIN_START)
    /// has taken, an Error (hang); a folder that is not writable, an Error (io).
    explicit RunDirectory(const std::filesystem::path& folder, ExitCode if_held = ExitCode::usage);
    /// Removes the folders that the constructor created if nothing but the lock was written there.
    ~RunDirectory();

    const RunPaths& paths() const { return paths_; }

    /// False once the folder or its lock has been deleted or replaced by another one: then another
    /// run can start there. Stays true if the file system does not answer.
    bool still_held() const;

    /// Error (hang) if another process has taken the lock since: a network file system gives the
    /// lock of a client that it has lost to the next start of the run, and some have no locks.
    /// Nothing may be written then. A lock that is another file is the matter of still_held().
    void require_own() const;

    /// Replaces spec.yaml; durable on return.
    void write_spec(std::string_view yaml) const;

private:
    /// The process named in the lock; empty if it is this one, or the file system does not answer.
    std::string other_holder() const;

    RunPaths paths_;
    std::vector<std::filesystem::path> new_folders_;  ///< the lowest first
    File folder_;
    File lock_;
    std::string holder_;  ///< what this process has written into the lock
};

}  // namespace gptrain
