// Finds the checkpoint to resume from.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/read_ahead.h"
#include "checkpoint/restart_point.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "spec/run_spec.h"

namespace gptrain {

/// Where a run starts.
struct ResumeChoice {
    enum class Kind {
        automatic,  ///< the newest valid checkpoint of the output directory, else a fresh start
        never,      ///< a fresh start; an Error if the output directory has checkpoints
        from,       ///< this checkpoint, or the newest valid one of this output directory
    };
    Kind kind = Kind::automatic;
    std::filesystem::path folder;
};

/// Error (usage) if the choice names a folder without a checkpoint. Reads no checkpoint.
void check_start(const ResumeChoice& choice);

/// The checkpoint to start from, nothing for a fresh start. Loading may still find that its data is
/// damaged. All ranks call it. `checkpoints`: the folder of the run's own checkpoints. `copies`:
/// for an automatic choice the run's newest copies of each tier, which serve if they are newer than
/// the newest whole checkpoint. Error (usage) if the choice cannot be followed.
std::optional<RestartPoint> find_start(const ResumeChoice& choice,
                                       const std::filesystem::path& checkpoints,
                                       const MpiSession& ranks,
                                       std::vector<LocalRestart> copies = {});

/// Reads what this rank will load, as far as that is known before the checkpoints are looked at:
/// its shard files of the newest one, or nothing if there may be newer copies on the nodes. So a
/// start connects while it loads. Takes no more than half of the memory that the node has left. All
/// ranks call it.
std::optional<ReadAhead> read_ahead(const ResumeChoice& choice, const RunSpec& spec,
                                    const MpiSession& ranks);

/// The peer axes of the run that the choice resumes (SavedRun), from the newest checkpoint that can
/// be read: of the mesh, which is made before a checkpoint is chosen. Nothing for a fresh start.
/// All ranks call it.
std::optional<PeerAxes> saved_peer_axes(const ResumeChoice& choice,
                                        const std::filesystem::path& checkpoints,
                                        const MpiSession& ranks);

/// The effective spec of the run that the choice resumes, from the newest checkpoint that can be
/// read. Nothing for a fresh start. Called on one rank.
std::optional<RunSpec> saved_spec(const ResumeChoice& choice,
                                  const std::filesystem::path& checkpoints);

/// The effective spec of the run that `spec` resumes: saved_spec, or where only copies on the nodes
/// can be resumed, its spec.yaml. Nothing for a fresh start. Called on one rank.
std::optional<RunSpec> resumed_spec(const RunSpec& spec, const ResumeChoice& choice);

/// Error (usage) if the checkpoint has no run to resume, with what to do instead.
void require_resumable(const RestartPoint& checkpoint);

}  // namespace gptrain
