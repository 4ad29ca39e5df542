// The manifest of a checkpoint: its files, its tensors, and which shard files hold parts of which
// tensor. It is written last; a checkpoint without a valid manifest does not exist. Where in a
// shard file the parts are, with the checksum of every byte, is in the file's record
// (shard_record.h), so that no rank reads or writes what grows with the ranks times the tensors of
// each.
//
// manifest.json is one JSON object with one member per line:
//   "format": "gptrain checkpoint", "version": 2
//   "step", "data_position", "spec_hash", "identity", "state": see CheckpointMeta
//   "block_bytes": 4194304
//   "files": [{"name", "bytes", "rest_crc32c"}]: every other file of the checkpoint; rest_crc32c is
//       the CRC-32C of its bytes outside all extents, concatenated
//   "tensors": [{"group", "name", "dtype": "fp32", "shape", "boxes"}]; a box is
//       {"offset", "extent", "shards": [[first, step, count]]}: a part of the tensor, and the shard
//       files that hold its elements: those numbered first, first + step, ..., `count` of them
//   "crc32c": CRC-32C of all bytes of manifest.json before this last line, which reads exactly
//       "crc32c":DECIMAL}  and ends with a line feed.
// The boxes of a tensor are disjoint and cover it. The extents of one box, in the records, cover
// its elements exactly once.
//
// Version 1, which is still read, has no records: its tensors have "extents" in place of "boxes",
// as a record has them, each with its "file".
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tensor/shard.h"

namespace gptrain {

/// The file of virtual datasets that show each tensor whole (hdf5_layout.h).
constexpr std::string_view model_index_name = "model.h5";

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

/// Shard files numbered first, first + step, ..., `count` of them.
struct ShardRun {
    std::int64_t first = 0;
    std::int64_t step = 1;
    std::int64_t count = 1;

    bool operator==(const ShardRun&) const = default;
};

/// A part of a tensor, and which shard files hold its elements.
struct TensorBox {
    Box box;
    std::vector<ShardRun> shards;
};

struct TensorEntry {
    std::string group;
    std::string name;
    Shape shape;
    std::vector<TensorBox> boxes;
};

/// The contents of manifest.json, parsed.
struct CheckpointIndex {
    CheckpointMeta meta;
    std::vector<FileRecord> files;
    std::vector<TensorEntry> tensors;
};

/// Merges what several files hold: one record per tensor, in order of first appearance.
std::vector<TensorRecord> merge_tensors(std::vector<TensorRecord> parts);

/// The extents of each box of a tensor, in order of their elements.
std::vector<std::vector<const ExtentRecord*>> extents_by_box(const TensorRecord& tensor);

/// The entries for tensors whose extents are in the shard files of several ranks, in order.
std::vector<TensorEntry> index_of(std::span<const TensorRecord> tensors);

/// The entries of `lower`, with the boxes and shard files of `higher` after theirs, then the
/// tensors that only `higher` has.
std::vector<TensorEntry> merge_entries(std::vector<TensorEntry> lower,
                                       std::vector<TensorEntry> higher);

/// The contents of the manifest and the records, combined.
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

/// A shape or an offset as an array.
Json sizes(const Shape& shape);

/// The contents of manifest.json.
std::string to_text(const CheckpointIndex& index);

// Parsing validates. `source` names the file in messages. Whatever the text holds, the result
// satisfies everything above, its names are plain names inside the folder, and no number
// overflows; otherwise Error (bad_input) that names the key or tensor at fault.

/// A manifest of either version.
using AnyManifest = std::variant<CheckpointIndex, Manifest>;
AnyManifest parse_any_manifest(std::string_view json, const std::string& source);

/// The largest manifest of version 2, and of version 1, in bytes.
constexpr std::int64_t manifest_limit = std::int64_t{64} << 20;
constexpr std::int64_t old_manifest_limit = std::int64_t{256} << 20;

/// The contents of `folder`/manifest.json, unchecked. More than old_manifest_limit bytes are an
/// Error (bad_input).
std::string read_manifest_text(const std::filesystem::path& folder);
/// The manifest with these contents in `folder`. A folder named like another step is an Error, too.
AnyManifest parse_any_manifest_of(const std::filesystem::path& folder, std::string_view text);

}  // namespace gptrain
