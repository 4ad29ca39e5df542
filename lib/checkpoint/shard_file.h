// The HDF5 file that one rank writes. HDF5 determines the layout; a few threads then write the
// bytes with plain positioned writes and compute checksums on the way, so that no data passes
// through the library.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/block_source.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reserved_file.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// The layout of a rank's file. It is known before the data and the same in every save.
struct ShardLayout {
    std::string file;  ///< "shard-00000.h5"
    /// One for each owned shard, with one extent without checksums.
    std::vector<TensorRecord> tensors;
    Hdf5Layout hdf5;
};

/// Lays out the file of `rank`; `folder` is for messages.
ShardLayout plan_shard_file(const std::filesystem::path& folder, int rank,
                            std::span<const HeldState> owned);

/// Writes layout and data to the reserved `file` and makes it durable. `blocks` is indexed like the
/// layout's tensors. Returns these with their checksums.
std::vector<TensorRecord> write_shard_file(File file, const ShardLayout& layout,
                                           const BlockSource& blocks);

/// The manifest's record of the layout's file.
FileRecord file_record(const ShardLayout& layout);

/// Writes the shard file, reserved as `file`, and its record next to it, makes both durable, and
/// reads back everything but the tensors' bytes. Returns the manifest's records of the two.
std::vector<FileRecord> write_shard(File file, const ShardLayout& layout,
                                    const BlockSource& blocks);

}  // namespace gptrain
