// Saves local copies, or copies in memory (local_folder.h).
//
// Each rank writes what it holds to its node's disk and passes it on to a rank of another node,
// which writes it, too. The ranks wait while the state is copied to host memory and passed on; the
// disk is waited for in the background. A save is complete when all ranks have both copies; only
// then are older ones removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/local_folder.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The rank to which each rank passes its copy, or `MpiSession::nobody`. `nodes`: the node of each
/// rank. The receiver is found by rotating the list of ranks, sorted by node, by the size of the
/// largest node. If no node has more than half of the ranks, every receiver is on a different node;
/// otherwise a rank whose receiver would be on its own node sends nothing.
std::vector<int> copy_receivers(const std::vector<int>& nodes);

/// All ranks call each function together. A save that fails because of a disk (io) costs nothing
/// but itself: rank 0 warns, and the last complete one stays.
class LocalCopies {
public:
    /// The arena (host memory) and all others must outlive it. `source` must always have the same
    /// shards. `may_write` is called on rank 0 before copies are completed, and older ones removed;
    /// an Error prevents that.
    LocalCopies(Backend& backend, Arena& snapshot, const MpiSession& ranks, LocalFolder folder,
                const StateSource& source, std::function<void()> may_write = {});

    void save(const CheckpointMeta& meta, const StateSource& source);
    /// Completes the save in progress if all ranks are ready for it; never waits for a disk. Call
    /// it once a step.
    void poll();
    /// Completes the save in progress.
    void finish();
    /// From now on saves belong to this course, which begins after `step`. Removes all others but
    /// those that it may continue from. Warns if there were later ones of another mesh.
    void begin_course(LocalCourse course, std::int64_t step);
    /// Removes all saves: the run has ended, or nothing more is to be saved.
    void remove_all();
    CopyTier tier() const { return folder_.tier; }

private:
    struct SaveInProgress {
        CheckpointMeta meta;
        std::string name;
        std::future<std::string> own;  ///< the record of this rank's copy, when it is durable
        std::optional<File> passed;    ///< the file of the other rank's copy
        std::future<void> passed_sync;
    };

    void begin(const CheckpointMeta& meta, const StateSource& source);
    /// Passes this rank's copy on, and writes the one that arrives.
    void pass_copies();
    void complete();
    /// An Error on all ranks if nothing may be written.
    void require_may_write() const;
    void write_manifest(int rank, const std::string& record, std::int64_t bytes) const;
    void abandon(const CommonError& failure);
    std::filesystem::path save_folder() const { return folder_.path() / save_->name; }
    bool first_of_node() const;

    Backend& backend_;
    Arena& snapshot_arena_;
    const MpiSession& ranks_;
    LocalFolder folder_;
    std::function<void()> may_write_;
    LocalCourse course_;
    ShardLayout layout_;
    std::vector<int> nodes_;         ///< of each rank
    int to_;                         ///< the rank that keeps this rank's copy
    int from_;                       ///< the rank whose copy this one keeps
    std::int64_t passed_bytes_ = 0;  ///< of that copy
    std::vector<Tensor> snapshot_;
    std::optional<SaveInProgress> save_;  ///< last, so that its threads end first
};

}  // namespace gptrain
