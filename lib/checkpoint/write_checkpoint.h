// A checkpoint that holds weights only, written by one process without a run: an imported model.
#pragma once

#include <filesystem>
#include <span>

#include "base/json.h"
#include "checkpoint/block_source.h"
#include "checkpoint/commit.h"

namespace gptrain {

struct WeightsToWrite {
    std::span<const Shard> tensors;  ///< whole ones
    BlockSource blocks;              ///< of the same indices
    std::span<const WholeFile> files;
    Json model;  ///< the attributes of model.h5 (see write_attributes)
};

/// Writes the checkpoint `folder`, which must not exist, as CheckpointSaver does: under a temporary
/// name until it is complete and durable. Returns the bytes of all files.
std::int64_t write_checkpoint(const std::filesystem::path& folder, const CheckpointMeta& meta,
                              const WeightsToWrite& weights);

}  // namespace gptrain
