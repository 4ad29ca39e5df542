// The HDF5 file that one rank writes. HDF5 decides where everything lies; the bytes are written by
// plain positioned writes of a few threads, with their checksums on the way, so that no data pass
// through the library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/block_source.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// What is known of a rank's file before its data are: all of it is the same in every save.
struct ShardLayout {
    std::string file;  ///< "shard-00000.h5"
    std::vector<TensorRecord>
        tensors;  ///< one for each owned shard, with one extent without checksums
    Hdf5Layout hdf5;
};

/// Lays out the file of `rank`. HDF5 works on a file of its own in `scratch`, which is gone
/// afterwards.
ShardLayout plan_shard_file(const std::filesystem::path& scratch, int rank,
                            std::span<const OwnedState> owned);

/// A file of a checkpoint with all of its space reserved on the disk.
File create_reserved(const std::filesystem::path& path, std::int64_t bytes);

/// Writes the layout and all data into the reserved `file` and makes it durable. `blocks` knows the
/// layout's tensors by their index. Returns them with their checksums.
std::vector<TensorRecord> write_shard_file(File file, const ShardLayout& layout,
                                           const BlockSource& blocks);

/// What the manifest says about the layout's file.
FileRecord file_record(const ShardLayout& layout);

/// One record for each tensor from those of all ranks, in the order in which they first come.
std::vector<TensorRecord> merge_tensors(std::vector<TensorRecord> parts);

}  // namespace gptrain
