// Loads local copies (local_folder.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/local_folder.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The newest save of a run's course of which its nodes together have every rank's copy. All ranks
/// call each function together; if one throws, all throw (CommonError).
class LocalRestart {
public:
    /// Empty if no save is complete. The session must outlive it.
    static std::optional<LocalRestart> find(const LocalFolder& folder, const LocalCourse& course,
                                            const MpiSession& ranks);

    /// The folder of the save, on every node.
    std::filesystem::path folder() const { return folder_.path() / save_; }
    const std::string& save() const { return save_; }
    CopyTier tier() const { return folder_.tier; }
    const CheckpointMeta& meta() const { return meta_; }
    /// Ranks whose copy is on another node only.
    int moved() const { return moved_; }

    /// Fills the shards of `needed` from this rank's copy, every byte verified. Brings the copy
    /// here from another node if it is missing or damaged. Error (bad_input): no copy of a rank is
    /// whole, or they are of other shards.
    void load(Backend& backend, const StateSource& needed) const;

private:
    LocalRestart(const LocalFolder& folder, const MpiSession& ranks)
        : folder_(folder), ranks_(&ranks) {}

    /// Sends the files of a rank's copy from `reader` to that rank.
    void fetch(int rank, int reader) const;
    /// Fetches the copies of the `waiting` ranks, each from the reader chosen for this attempt.
    void fetch_all(const std::vector<int>& waiting, std::size_t attempt) const;
    void load_copy(Backend& backend, const StateSource& needed) const;

    LocalFolder folder_;
    const MpiSession* ranks_;
    std::string save_;
    CheckpointMeta meta_;
    /// For each rank: one rank on every node that has its copy; the rank itself comes first if its
    /// own node has one.
    std::vector<std::vector<int>> readers_;
    int moved_ = 0;
};

}  // namespace gptrain
