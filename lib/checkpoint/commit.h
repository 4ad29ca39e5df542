// What makes the files of all ranks a checkpoint. Rank 0 alone does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/records.h"

namespace gptrain {

/// Where a run keeps its checkpoints, and which of them.
struct Retention {
    std::filesystem::path folder;  ///< the run's "checkpoints"
    std::int64_t keep_last = 3;    ///< at least 2
    std::int64_t keep_every = 0;   ///< steps that are multiples of it stay; 0: none
};

constexpr std::string_view model_index_name = "model.h5";

/// A file of a checkpoint that holds no tensor; rank 0 has it and writes it.
struct WholeFile {
    std::string_view name;
    std::string_view contents;
};

/// Writes the manifest of the durable files in the folder `temporary`, gives the folder its name,
/// and reads back manifest, sizes and HDF5 structure; only then old checkpoints go. `shards`: the
/// records of all ranks. `whole_files`: model.h5 and what else rank 0 wrote. Returns the bytes of
/// all files. Error (io): there is no new checkpoint, or it does not read back.
std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               ShardRecords shards, std::span<const WholeFile> whole_files,
                               const Retention& retention);

}  // namespace gptrain
