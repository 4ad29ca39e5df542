// Typed and bounded fields, for the parsers of manifests and records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/manifest.h"

namespace gptrain::manifest_fields {

/// Two sizes within this bound add up without overflow.
constexpr std::int64_t largest_size = std::int64_t{1} << 60;

[[noreturn]] void refuse(const std::string& source, const auto&... parts) {
    fail(ExitCode::bad_input, source, ": ", parts...);
}

/// Names become file names and HDF5 names: no separators, and nothing outside the folder.
void check_name(const std::string& name, const std::string& source, std::string_view key);

/// From 0 to largest_size.
std::int64_t size_in(const JsonReader& reader, std::string_view key, const std::string& source);
/// A shape whose size in bytes is at most largest_size, each of its sizes at least `smallest`.
Shape shape_in(const JsonReader& reader, std::string_view key, std::int64_t smallest,
               const std::string& source);
/// A box inside `shape`, from two keys.
Box box_in(const JsonReader& reader, std::string_view offset_key, std::string_view extent_key,
           const Shape& shape, const std::string& source);

CheckpointMeta meta_in(const JsonReader& reader, const std::string& source);
/// The files; their names are different, and their sizes add up to at most largest_size.
std::vector<FileRecord> files_in(const JsonReader& reader, const std::string& source);

/// A tensor without boxes and extents. Completes `source` with its name.
TensorRecord tensor_in(const JsonReader& reader, std::string& source);
/// An extent of the tensor in `file`, with its checksums.
ExtentRecord extent_in(const JsonReader& reader, const TensorRecord& tensor, const FileRecord& file,
                       const std::string& source);

/// Refuses boxes that overlap, more than 1024, and those without `elements` elements in all.
void check_boxes(std::vector<Box> boxes, std::int64_t elements, const std::string& source);
/// Refuses a tensor unless each of its elements is in exactly one extent.
void check_complete(const TensorRecord& tensor, const std::string& source);
/// Refuses extents that share bytes of a file.
void check_disjoint_in_files(const std::vector<TensorRecord>& tensors, const std::string& source);

}  // namespace gptrain::manifest_fields
