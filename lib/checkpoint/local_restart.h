// Loads local copies (local_folder.h).
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/local_folder.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The newest save on the nodes of a run of which some node has the copy of every rank. All ranks
/// call each function together; if one throws, all throw (CommonError).
class LocalRestart {
public:
    /// Nothing if no save is complete. The session must outlive it.
    static std::optional<LocalRestart> find(const LocalFolder& folder, const MpiSession& ranks);

    /// The folder of the save, on every node.
    std::filesystem::path folder() const { return folder_.path() / save_; }
    const CheckpointMeta& meta() const { return meta_; }
    /// Ranks whose copy is on another node only.
    int moved() const { return moved_; }

    /// Brings this rank's copy here from another node if it is missing, and fills the shards of
    /// `needed`, every byte verified. Error (bad_input): a copy is damaged, or of other shards.
    void load(Backend& backend, const StateSource& needed) const;

private:
    LocalRestart(const LocalFolder& folder, const MpiSession& ranks)
        : folder_(folder), ranks_(&ranks) {}

    /// Sends the files of a rank's copy from `holder` to that rank. Returns this rank's fault.
    std::exception_ptr fetch(int rank, int holder) const;

    LocalFolder folder_;
    const MpiSession* ranks_;
    std::string save_;
    CheckpointMeta meta_;
    std::vector<int> holders_;  ///< for each rank: a rank that can read its copy; itself if it can
    int moved_ = 0;
};

}  // namespace gptrain
