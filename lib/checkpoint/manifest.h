// The manifest of a checkpoint: which file holds which part of which tensor, and the checksum of
// every byte. It is written last; a checkpoint without a valid manifest does not exist.
//
// manifest.json is one JSON object with one member per line:
//   "format": "gptrain checkpoint", "version": 1
//   "step", "data_position", "spec_hash", "identity", "state": see CheckpointMeta
//   "block_bytes": 4194304
//   "files": [{"name", "bytes", "rest_crc32c"}]: every other file of the checkpoint; rest_crc32c is
//       the CRC-32C of its bytes outside all extents, concatenated
//   "tensors": [{"group", "name", "dtype": "fp32", "shape", "extents"}]; an extent is {"file",
//       "byte_offset", "bytes", "box_offset", "box_extent", "flat": [begin, end], "crc32c": [one
//       for each block of block_bytes; the last block may be shorter]}: the elements [begin, end),
//       in row-major order, of a box of the tensor, little-endian fp32
//   "crc32c": CRC-32C of all bytes of manifest.json before this last line, which reads exactly
//       "crc32c":DECIMAL}  and ends with a line feed.
// The boxes of a tensor's extents are equal or disjoint. Extents of one box cover its elements
// exactly once. The boxes cover the whole tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tensor/shard.h"

namespace gptrain {

constexpr std::int64_t checkpoint_block_bytes = std::int64_t{4} << 20;
/// Threads with which a rank reads or writes: one does not saturate a fast disk.
constexpr int checkpoint_threads = 4;

/// The trainer's description of a checkpoint.
struct CheckpointMeta {
    std::int64_t step = 0;           ///< the state is that after this step
    std::int64_t data_position = 0;  ///< samples consumed
    std::string spec_hash;
    Json identity = Json::object();  ///< must be equal to resume
    Json state = Json::object();     ///< counters, loss scale, ...
};

/// A part of a tensor, and where its bytes are.
struct ExtentRecord {
    Box box;
    std::int64_t flat_begin = 0;
    std::int64_t flat_end = 0;
    std::string file;
    std::int64_t byte_offset = 0;
    std::vector<std::uint32_t> crc32c;  ///< one per block

    std::int64_t elements() const { return flat_end - flat_begin; }
    std::int64_t bytes() const { return elements() * size_of(DType::f32); }
};

struct TensorRecord {
    std::string group;
    std::string name;
    Shape shape;
    std::vector<ExtentRecord> extents;
};

/// The extent's dataset in its shard file: "/weight/wte.weight" if it covers its whole box, else
/// "/weight/wte.weight[begin:end]", one-dimensional.
std::string dataset_path(const TensorRecord& tensor, const ExtentRecord& extent);

/// The extent as a shard, as it was written.
Shard shard_of(const TensorRecord& tensor, const ExtentRecord& extent);

struct FileRecord {
    std::string name;
    std::int64_t bytes = 0;
    std::uint32_t rest_crc32c = 0;
};

struct Manifest {
    CheckpointMeta meta;
    std::vector<FileRecord> files;
    std::vector<TensorRecord> tensors;

    const TensorRecord* find(std::string_view group, std::string_view name) const;
    const FileRecord* find_file(std::string_view name) const;
    /// Bytes of all files, without the manifest.
    std::int64_t bytes() const;
    /// Number of elements in group "weight".
    std::int64_t parameters() const;
};

/// The contents of manifest.json.
std::string to_text(const Manifest& manifest);

/// Parses and validates a manifest; `source` names the file in messages. Whatever the text holds,
/// the result satisfies everything above, its names are plain names inside the folder, and no
/// number overflows; otherwise Error (bad_input) that names the key or tensor at fault.
Manifest parse_manifest(std::string_view json, const std::string& source);

/// The same from `folder`/manifest.json (at most 256 MiB). A folder named like another step is an
/// Error, too.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace gptrain
