// The part of a checkpoint's records that a rank needs. With thousands of ranks all records hold
// millions of checksums, so each rank reads those of the shard files that it needs. A manifest of
// version 1 has no records: rank 0 sends each rank its part.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/records.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// A record for every nonempty shard of `source`, owned or not, with the shard as its only extent,
/// without file and checksums.
std::vector<TensorRecord> needs_of(const StateSource& source);

/// The extents that may hold elements of `needs`, and their files, from the records of the shard
/// files that hold parts of the same boxes. Omits tensors that are not in the index; a tensor of
/// another shape has no extents. Error (bad_input) as for read_records.
Manifest read_part(const std::filesystem::path& folder, const CheckpointIndex& index,
                   std::span<const TensorRecord> needs);

/// The same from a manifest that has all extents.
class ManifestParts {
public:
    /// The manifest must outlive it.
    explicit ManifestParts(const Manifest& manifest);

    ShardRecords part_for(std::span<const TensorRecord> needs) const;

private:
    using Name = std::pair<std::string_view, std::string_view>;

    std::map<Name, const TensorRecord*> tensors_;
    std::map<std::string_view, const FileRecord*> files_;
};

}  // namespace gptrain
