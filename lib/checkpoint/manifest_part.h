// What a rank needs of a manifest. With thousands of ranks a manifest has millions of checksums:
// rank 0 alone reads it and gives every rank its part.
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

/// A record for every shard of `source` that has elements, owned or not: the shard as the only
/// extent, without file and checksums.
std::vector<TensorRecord> needs_of(const StateSource& source);

class ManifestParts {
public:
    /// The manifest must outlive it.
    explicit ManifestParts(const Manifest& manifest);

    /// The extents that may hold elements of `needs`, and their files. A tensor that is not in the
    /// manifest is left out; one of another shape comes without extents.
    ShardRecords part_for(std::span<const TensorRecord> needs) const;

private:
    using Name = std::pair<std::string_view, std::string_view>;

    std::map<Name, const TensorRecord*> tensors_;
    std::map<std::string_view, const FileRecord*> files_;
};

}  // namespace gptrain
