// Saves checkpoints. A save writes into "step-000500.tmp-...": the space of every file is reserved
// first, then come the data, fsync of files and folder, the manifest, one rename, fsync of the
// parent. A save that fails or dies leaves the earlier checkpoints as they are.
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
#include "checkpoint/shard_file.h"
#include "comm/mpi_session.h"

namespace gptrain {

struct SaverOptions {
    Retention retention;
    bool async = true;
    /// What else belongs into every checkpoint; of rank 0. The contents outlive the saver.
    std::vector<WholeFile> files = {};
    /// The attributes of model.h5 (see write_attributes); rank 0's count.
    Json model = Json::object();
};

/// Every rank writes a file with what it owns; then rank 0, which makes folders and index, commits.
/// An asynchronous save does both on a thread of the rank while training goes on. Such a thread
/// never speaks to other ranks: when all have written, and again when rank 0 has committed, the
/// ranks agree on it where they all call `advance`. A rank that is lost is thus noticed as in any
/// collective, and success and failure are known to all ranks at the same call.
///
/// A save that fails for the disk's sake (io) leaves nothing behind, and training goes on: rank 0
/// says a warning, and the next save is the next try. Failure number `most_failures` in a row is
/// thrown, and what `wait` finds. All ranks throw alike (CommonError).
///
/// The HDF5 library runs inside of `save` only, until one has succeeded in it (Debian's build is
/// not thread-safe): later saves and the threads write the bytes that it laid out then.
class CheckpointSaver {
public:
    static constexpr int most_failures = 3;

    /// Removes what dead runs left in the folder. Backend, snapshot arena (host memory, used by
    /// asynchronous saves alone) and session must outlive the saver. Rank 0 holds the lock of the
    /// output directory.
    CheckpointSaver(Backend& backend, Arena& snapshot, const MpiSession& ranks,
                    SaverOptions options);
    /// A single rank finishes the save under way. Several cannot: other ranks may not come here.
    ~CheckpointSaver();

    // All ranks call these together.
    /// Saves the owned shards of `source`: asynchronously it returns once they are copied to the
    /// snapshot, else when all is durable. First waits for the save under way: there are never two
    /// of them.
    void save(const CheckpointMeta& meta, const StateSource& source);
    /// Takes a save under way one stage further if all ranks are ready for it; never waits for the
    /// disk. To be called once a step.
    void advance();
    /// Waits for the save under way. Its failure is told by the next call.
    void settle();
    /// The same for the last save of a run: its failure is thrown.
    void wait();
    /// The same for a save whose outcome does not matter any more: its failure is not told.
    void forget();

private:
    enum class Stage {
        idle,
        writing,     ///< every rank its file
        committing,  ///< rank 0
    };
    struct UnderWay {
        CheckpointMeta meta;
        std::string folder;  ///< where it is written, the same on all ranks
        std::chrono::steady_clock::time_point start;
    };

    void lay_out(std::int64_t step, std::span<const OwnedState> owned);
    void begin(const CheckpointMeta& meta, const StateSource& source);
    /// Starts the work of the next stage on this rank.
    void start(Stage stage, std::function<std::string()> work);
    /// Waits for the stage's work on all ranks and goes on to the next stage.
    void next_stage();
    /// This rank's files; returns their records as a message.
    std::string write_files(const BlockSource& blocks) const;
    /// model.h5 and the options' files.
    std::vector<WholeFile> whole_files() const;
    std::string commit(const std::vector<std::string>& written) const;
    void give_up(const CommonError& failure);
    /// Warns of a failure that was not told yet, or throws it where it is one too many.
    void tell_failure();

    Backend& backend_;
    Arena& snapshot_arena_;
    const MpiSession& ranks_;
    SaverOptions options_;
    std::optional<ShardLayout> layout_;  ///< made by the first save
    std::string model_index_;            ///< contents of model.h5, as well; rank 0's
    std::vector<Tensor> snapshot_;
    Stage stage_ = Stage::idle;  ///< the same on all ranks
    UnderWay save_;
    std::optional<TemporaryFolder> temporary_;  ///< rank 0's
    std::optional<CommonError> untold_;         ///< the same on all ranks
    int failures_ = 0;                          ///< in a row
    std::future<std::string> work_;             ///< last, so that its thread ends first
};

}  // namespace gptrain
