// Turns the files of all ranks into a checkpoint. Runs on rank 0 only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/records.h"

namespace gptrain {

/// Where a run keeps its checkpoints, and how many.
struct Retention {
    std::filesystem::path folder;  ///< the run's "checkpoints"
    std::int64_t keep_last = 3;    ///< at least 2
    std::int64_t keep_every = 0;   ///< steps that are multiples of it are kept; 0: none
};

constexpr std::string_view model_index_name = "model.h5";

/// A checkpoint file without tensors, held and written by rank 0.
struct WholeFile {
    std::string_view name;
    std::string_view contents;
};

/// Writes all of a reserved file and makes it durable.
void write_whole(File file, std::string_view contents);

/// Writes the manifest of the durable files in `temporary`, renames that folder to `final_path`,
/// and reads back manifest, sizes and HDF5 structure. `shards` are the records of all ranks,
/// `whole_files` model.h5 and the other files of rank 0. Returns the bytes of all files. Error
/// (io): there is no new checkpoint, or it does not read back.
std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               ShardRecords shards, std::span<const WholeFile> whole_files,
                               const std::filesystem::path& final_path);

/// The same for a checkpoint of a run, named after its step. Then removes old checkpoints.
std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               ShardRecords shards, std::span<const WholeFile> whole_files,
                               const Retention& retention);

}  // namespace gptrain
