// Takes the lock on a run's output directory, with patience after a restart by Slurm.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "comm/mpi_session.h"
#include "metrics/run_directory.h"

namespace gptrain {

/// How long a start waits for a lock that is held: some minutes if Slurm has restarted the job
/// (SLURM_RESTART_COUNT) or the batch script has started gptrain again (the last number of
/// GPTRAIN_START is above 1), because a network file system keeps the lock of a client that it has
/// lost for a while, and a process of the start before may not have ended yet. Otherwise 0.
std::chrono::seconds lock_patience();

/// Error (usage) if the output directory has a spec.yaml that gptrain did not write, such as the
/// user's own: the run would replace it by its effective spec.
void check_spec_there(const RunPaths& paths);

/// Creates and locks the output directory on rank 0. All ranks call it together. A lock that is
/// still held after `patience` is an Error on all ranks: usage without patience, otherwise hang, so
/// that the job is put back. Calls `on_progress` before every attempt, at least once a second.
void lock_directory(std::optional<RunDirectory>& directory, const std::filesystem::path& folder,
                    std::chrono::seconds patience, const MpiSession& ranks,
                    const std::function<void()>& on_progress);

}  // namespace gptrain
