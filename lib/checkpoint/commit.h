// Turns the files of all ranks into a checkpoint. Runs on rank 0 only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"

namespace gptrain {

/// A checkpoint file without tensors, held and written by rank 0.
struct WholeFile {
    std::string_view name;
    std::string_view contents;
};

/// The files and tensors that all ranks have written.
struct WrittenShards {
    std::vector<FileRecord> files;         ///< shard files and their records
    std::span<const TensorEntry> tensors;  ///< of the whole checkpoint
};

/// Writes the manifest of the durable files in `temporary`, reads back the manifest and
/// `whole_files`: model.h5 and the other files of rank 0, and renames the folder to `final_path`.
/// The ranks have read back the others. Returns the bytes of all files. After an Error (io) there
/// is no new checkpoint, and an existing one of that name is unchanged. `may_write` is called just
/// before the renaming, which its Error prevents.
std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               WrittenShards shards, std::span<const WholeFile> whole_files,
                               const std::filesystem::path& final_path,
                               const std::function<void()>& may_write = {});

}  // namespace gptrain
