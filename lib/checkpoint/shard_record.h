// The record of a shard file: what the file holds of which tensors, and where. The rank that wrote
// the file writes it.
//
// record-00000.json, for shard-00000.h5, is one JSON object:
//   "format": "gptrain shard", "version": 2
//   "tensors": [{"group", "name", "dtype": "fp32", "shape", "extents"}]; an extent is
//       {"byte_offset", "bytes", "box_offset", "box_extent", "flat": [begin, end], "crc32c": [one
//       for each block of block_bytes; the last block may be shorter]}: the elements [begin, end),
//       in row-major order, of a box of the tensor, little-endian fp32
// The manifest has its size and its CRC-32C.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_names.h"

namespace gptrain {

/// The contents of a record. The extents are those of one shard file.
std::string record_text(std::span<const TensorRecord> tensors);

/// Parses and validates the record of the shard file `file`, as parse_any_manifest does.
std::vector<TensorRecord> parse_record(std::string_view json, const FileRecord& file,
                                       const std::string& source);

/// The same of the record in `folder`, every byte verified.
std::vector<TensorRecord> read_record(const std::filesystem::path& folder, const FileRecord& shard,
                                      const FileRecord& record);

/// Finds what an index holds by name. The index must outlive it.
class IndexLookup {
public:
    explicit IndexLookup(const CheckpointIndex& index);
    /// A file that is in the index.
    const FileRecord& file(const std::string& name) const { return *files_.at(name); }
    /// Null if the index has no such tensor.
    const TensorEntry* tensor(std::string_view group, std::string_view name) const;

private:
    std::map<std::string_view, const FileRecord*> files_;
    std::map<std::pair<std::string_view, std::string_view>, const TensorEntry*> tensors_;
};

/// Reads the records of these shard files, with a few threads, and returns what they hold: one
/// record per tensor, in order of shard files. Error (bad_input): a record is missing or damaged,
/// or contradicts the index.
std::vector<TensorRecord> read_records(const std::filesystem::path& folder,
                                       const CheckpointIndex& index,
                                       const std::set<std::int64_t>& shards);

/// The manifest in `folder`, of either version, with all records. Error (bad_input) also if they
/// lack elements of a tensor.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace gptrain
