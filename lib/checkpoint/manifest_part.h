// The part of a manifest that a rank needs. With thousands of ranks a manifest has millions of
// checksums, so only rank 0 reads it and sends each rank its part.
#pragma once

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

class ManifestParts {
public:
    /// The manifest must outlive it.
    explicit ManifestParts(const Manifest& manifest);

    /// The extents that may hold elements of `needs`, and their files. Omits tensors that are not
    /// in the manifest; a tensor of another shape has no extents.
    ShardRecords part_for(std::span<const TensorRecord> needs) const;

private:
    using Name = std::pair<std::string_view, std::string_view>;

    std::map<Name, const TensorRecord*> tensors_;
    std::map<std::string_view, const FileRecord*> files_;
};

}  // namespace gptrain
