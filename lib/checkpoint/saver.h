// Saves checkpoints. A save writes into "step-000500.tmp-...": the space of every file is reserved
// first, then come the data, fsync of files and folder, the manifest, one rename, fsync of the
// parent. A save that fails or dies leaves the earlier checkpoints as they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/records.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"

namespace gptrain {

struct SaverOptions {
    std::filesystem::path folder;  ///< the run's "checkpoints"
    std::int64_t keep_last = 3;    ///< at least 2
    std::int64_t keep_every = 0;   ///< steps that are multiples of it stay; 0: none
    bool async = true;
};

/// Each rank writes a file with what it owns; rank 0 alone makes folders, the index and the
/// manifest, commits, and removes what is old. With several ranks a save is never asynchronous: the
/// manifest needs all of them.
///
/// The HDF5 library runs inside of the first `save` only, on the thread that calls it (Debian's
/// build is not thread-safe): later saves and the writer thread write the bytes that it laid out
/// then.
class CheckpointSaver {
public:
    /// Removes what dead runs left in the folder. Backend, snapshot arena (host memory, used by
    /// asynchronous saves alone) and session must outlive the saver. Rank 0 holds the lock of the
    /// output directory.
    CheckpointSaver(Backend& backend, Arena& snapshot, const MpiSession& ranks,
                    SaverOptions options);
    /// Waits for the save under way; its error becomes a warning.
    ~CheckpointSaver();

    /// Called by all ranks. Saves the owned shards of `source`: asynchronously it copies them to
    /// the snapshot and returns while a thread writes; else it writes them through a small buffer
    /// and returns when all is durable. First waits for the save under way; if that failed, its
    /// error is thrown and nothing new is begun. Error (io): the disk is full or fails; nothing is
    /// left of the failed save. Once the new checkpoint is durable and its manifest, sizes and HDF5
    /// structure have been read back, a line says so and old ones go (see remove_old_checkpoints).
    void save(const CheckpointMeta& meta, const StateSource& source);
    /// Waits for the save under way and throws its error.
    void wait();

private:
    bool several_ranks() const { return ranks_.size() > 1; }
    void lay_out(std::int64_t step, std::span<const OwnedState> owned);
    /// This rank's file in `folder`; nothing where it owns nothing.
    ShardRecords write_shard(const std::filesystem::path& folder, const BlockSource& blocks) const;
    /// All that comes after the ranks' files.
    void commit(const CheckpointMeta& meta, const std::filesystem::path& folder,
                ShardRecords records, std::chrono::steady_clock::time_point start) const;
    void write_alone(const CheckpointMeta& meta, const BlockSource& blocks) const;
    void write_together(const CheckpointMeta& meta, const BlockSource& blocks) const;

    Backend& backend_;
    Arena& snapshot_arena_;
    const MpiSession& ranks_;
    SaverOptions options_;
    std::optional<ShardLayout> layout_;  ///< made by the first save
    std::string model_index_;            ///< contents of model.h5, as well
    std::vector<Tensor> snapshot_;
    std::future<void> writing_;
};

}  // namespace gptrain
