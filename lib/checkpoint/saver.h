// Saves checkpoints. A save writes to "step-000500.tmp-...": it first reserves the space of every
// file, then writes the data and each rank's record, syncs files and folder, writes the manifest,
// reads back what is not data, renames the folder once and syncs its parent. A save that fails or
// dies leaves earlier checkpoints untouched.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/json.h"
#include "checkpoint/block_source.h"
#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/retention.h"
#include "checkpoint/shard_file.h"
#include "comm/mpi_session.h"

namespace gptrain {

struct SaverOptions {
    Retention retention;
    bool async = true;
    /// Other files of every checkpoint, on rank 0. Their contents must outlive the saver.
    std::vector<WholeFile> files = {};
    /// The attributes of model.h5 (see write_attributes), on rank 0.
    Json model = Json::object();
    /// Called on rank 0 before a checkpoint is committed, and before anything is removed that
    /// another process may have written; an Error prevents that.
    std::function<void()> may_write = {};
    /// Called on rank 0 with the reason of every save that failed because of the disk.
    std::function<void(const std::string&)> failed = {};
    /// Called on rank 0 with the folder of every checkpoint that was committed.
    std::function<void(const std::filesystem::path&)> committed = {};
    /// With more parts of tensors in all shard files, checkpoints have no model.h5, which would
    /// take minutes to make (write_view).
    std::int64_t max_viewed_parts = 50'000;
    /// Called on rank 0 when all ranks have written, before the manifest is: adds to it the seconds
    /// that the save has taken.
    std::function<void(CheckpointMeta& meta, double seconds)> record_time = {};
};

/// Every rank writes one file with what it owns, and its record; then rank 0, which makes the
/// folder and the index, commits. An asynchronous save does both on a thread of each rank while
/// training continues. These threads never communicate: when all have written, and again when rank
/// 0 has committed, the ranks agree on it in a common call of `poll`. So a lost rank is noticed as
/// in any collective, and all ranks learn of success or failure in the same call.
///
/// A save that fails because of the disk (io) leaves nothing behind, and training continues: rank 0
/// warns, and the next save is the next attempt. After `max_failures` failures in a row the
/// failure is thrown; `wait` always throws. All ranks throw the same (CommonError).
///
/// The HDF5 library runs only once (Debian's build is not thread-safe): inside `prepare`, or else
/// the first `save`, then on rank 0's thread, which makes model.h5 while the ranks write for the
/// first time. All saves write the bytes laid out then.
class CheckpointSaver {
public:
    static constexpr int max_failures = 3;

    /// Removes what dead runs left in the folder. The backend, the snapshot arena (host memory, for
    /// asynchronous saves only) and the session must outlive the saver. Rank 0 must hold the output
    /// directory's lock.
    CheckpointSaver(Backend& backend, Arena& snapshot, const MpiSession& ranks,
                    SaverOptions options);
    /// A single rank finishes the save in progress. With several ranks this is impossible: some may
    /// never get here.
    ~CheckpointSaver();

    // All ranks call these together.
    /// Prepares the first save of `source` before training, so that a failure shows early: lays out
    /// the files, and on rank 0 makes the folder and tries to write there. Warns if the disk has no
    /// room for a checkpoint now.
    void prepare(const StateSource& source);
    /// Saves the owned shards of `source`. An asynchronous save returns once they are copied to the
    /// snapshot, a synchronous one when everything is durable. Waits first for a save in progress:
    /// there are never two.
    void save(const CheckpointMeta& meta, const StateSource& source);
    /// The run has loaded `folder`, a checkpoint of that step (empty: local copies). It need not be
    /// verified again. Later ones in the saver's folder are damaged or of a course that was left,
    /// and do not count as kept.
    void continue_from(std::int64_t step, const std::filesystem::path& folder);
    /// Moves a save in progress to its next stage if all ranks are ready for it; never waits for
    /// the disk. Call it once a step.
    void poll();
    /// Waits for the save in progress. The next call reports its failure.
    void finish_save();
    /// Waits for the last save of a run and throws its failure.
    void wait();
    /// The seconds of the longest save so far, without the steps that ran between its stages; 0
    /// before the first.
    double longest_save() const { return longest_save_; }
    /// Waits for a save whose outcome no longer matters; its failure is not reported.
    void discard();

private:
    enum class Phase {
        idle,
        writing,     ///< every rank writes its file
        committing,  ///< rank 0 commits
    };
    struct SaveInProgress {
        CheckpointMeta meta;
        std::string folder;  ///< where it is written, the same on all ranks
        std::chrono::steady_clock::time_point start;
        double seconds = 0;  ///< of the stages so far, each on its slowest rank
    };

    /// The folder of the save in progress.
    std::filesystem::path final_path() const {
        return options_.retention.folder / checkpoint_name(save_.meta.step);
    }
    void plan_files(std::span<const HeldState> owned);
    /// Writes a file into the folder, on rank 0. `bytes`: of a checkpoint.
    void try_folder(std::int64_t bytes) const;
    /// Collects what model.h5 shows, unless that is too much.
    void plan_view(const std::vector<TensorRecord>& own);
    void begin(const CheckpointMeta& meta, const StateSource& source);
    /// Starts this rank's work of a stage.
    void start(Phase phase, std::function<std::string()> work);
    /// Adds the seconds of work that has ended on all ranks to those of the save.
    void count_work();
    /// Waits for the stage's work on all ranks and moves to the next stage.
    void next_phase();
    /// Finds out which checkpoints of earlier starts verify, each rank a part of each.
    void verify_older();
    /// Writes and reads back this rank's files; returns the manifest's records of them, as a
    /// message.
    std::string write_files(const BlockSource& blocks);
    /// Makes model.h5, once.
    void make_model_index();
    /// model.h5, if there is one, and the files in the options.
    std::vector<WholeFile> whole_files() const;
    std::string commit(const std::vector<std::string>& written);
    /// On rank 0.
    void remove_left() const { remove_leftovers(options_.retention.folder, options_.may_write); }
    void abandon_save(const CommonError& failure);
    /// Warns of a failure not yet reported, or throws it if there have been too many.
    void report_failure();

    Backend& backend_;
    Arena& snapshot_arena_;
    const MpiSession& ranks_;
    SaverOptions options_;
    std::optional<ShardLayout> layout_;  ///< made by `prepare` or the first save
    // On rank 0:
    std::vector<TensorEntry> entries_;  ///< of the manifest, made with the layout
    std::vector<TensorRecord> viewed_;  ///< what model.h5 shows, until it is made
    std::string model_index_;           ///< contents of model.h5
    VerifiedCheckpoints verified_;
    bool older_verified_ = false;  ///< those of earlier starts, on all ranks
    std::vector<Tensor> snapshot_;
    Phase phase_ = Phase::idle;  ///< the same on all ranks
    SaveInProgress save_;
    std::optional<TemporaryFolder> temporary_;  ///< on rank 0
    std::optional<CommonError> unreported_;     ///< the same on all ranks
    int failures_ = 0;                          ///< in a row
    double longest_save_ = 0;
    double work_seconds_ = 0;        ///< of this rank's work, when it has ended
    std::future<std::string> work_;  ///< last member, so that its thread ends first
};

}  // namespace gptrain
