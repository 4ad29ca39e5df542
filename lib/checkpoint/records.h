// What ranks tell each other of a manifest: those that save what their file adds to it, those that
// load what they need of it, rank 0 their part of it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace gptrain {

struct ShardRecords {
    std::vector<FileRecord> files;  ///< none of a rank that owns nothing
    std::vector<TensorRecord> tensors;
};

std::string to_message(const ShardRecords& records);
/// Of a message of the same program.
ShardRecords from_message(const std::string& message);

std::string to_message(const CheckpointMeta& meta);
CheckpointMeta meta_from_message(const std::string& message);

/// Those of all ranks as one: a record for each tensor, in the order in which they first come.
ShardRecords merged(const std::vector<std::string>& messages);

}  // namespace gptrain
