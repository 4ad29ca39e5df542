// The training loop: data, steps, evaluations, checkpoints, logs, and stopping in good order.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "backend/backend.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "spec/run_plan.h"
#include "train/observers.h"

namespace gptrain {

/// Where a run begins.
struct ResumeChoice {
    enum class Kind {
        automatic,  ///< the newest valid checkpoint of the output directory, else a fresh start
        never,      ///< a fresh start; an output directory with checkpoints is refused
        from,       ///< this checkpoint, or the newest valid one of this output directory
    };
    Kind kind = Kind::automatic;
    std::filesystem::path folder;
};

/// What a run computes on, and who watches it.
struct RunDevices {
    Backend& backend;
    const Mesh& mesh;
    const MpiSession& ranks;
    Observers& observers;
    std::string device_name;                        ///< of a rank, for people
    std::chrono::steady_clock::time_point started;  ///< when the program was
};

/// Trains until the last step or until one of the ranks is told to stop. Returns done or requeue;
/// faults are Errors. `plan` may take its number of samples from the checkpoint. All ranks call it;
/// rank 0 speaks and writes for all.
ExitCode train(const RunSpec& spec, RunPlan plan, const ResumeChoice& resume,
               const RunDevices& devices);

}  // namespace gptrain
