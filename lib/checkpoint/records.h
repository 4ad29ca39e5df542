// Messages between ranks about a checkpoint: saving ranks send what their files hold. If the
// manifest is of version 1, loading ranks send what they need, and rank 0 answers with their part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace gptrain {

struct ShardRecords {
    std::vector<FileRecord> files;  ///< none for a rank that owns nothing
    std::vector<TensorRecord> tensors;
};

std::string to_message(const ShardRecords& records);
/// Parses a message of the same program.
ShardRecords from_message(const std::string& message);

std::string to_message(std::span<const TensorEntry> entries);
std::vector<TensorEntry> entries_from_message(const std::string& message);

std::string to_message(const CheckpointMeta& meta);
CheckpointMeta meta_from_message(const std::string& message);

/// Merges the records of all ranks: one record per tensor, in order of first appearance.
ShardRecords merged(const std::vector<std::string>& messages);

}  // namespace gptrain
