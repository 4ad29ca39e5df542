// Which ranges of the flat order a rank updates: its part of every bucket that has owners, else
// everything; who sends the new weights; and which frozen parameters it saves.
#pragma once

#include <optional>
#include <vector>

#include "comm/mesh.h"
#include "model/layout.h"

namespace gptrain {

/// This rank among the owners of parameters that are shared in one way.
struct Owner {
    int rank = 0;
    int ranks = 1;      ///< 1: every rank updates everything
    bool saves = true;  ///< the first of the ranks that update the same part
};
Owner owner_of(const Sharing& sharing, const Mesh& mesh);

/// The part of a parameter that this rank updates.
struct OwnedRange {
    const Parameter* parameter;
    Shard shard;             ///< that part, as a flat range of the parameter
    std::int64_t begin = 0;  ///< its position in the flat order
    FlatRange range() const { return {begin, begin + shard.elements()}; }
};

/// The part of a bucket that belongs to `rank` of `ranks`.
FlatRange part_of_bucket(const FlatRange& bucket, int rank, int ranks);

/// Owned ranges in the flat order.
std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Mesh& mesh);

/// A range of new weights that is sent at once.
struct WeightMessage {
    FlatRange range;
    Axis owners;  ///< who has updated it
    /// The one of them that has updated all of it; empty: each its part of a bucket.
    std::optional<int> owner;
    std::size_t unit = 0;  ///< of the bucket, as is fp8
    bool fp8 = false;
};

/// The messages that bring new weights to all owners of a bucket, in the flat order.
std::vector<WeightMessage> weight_messages(const ParameterLayout& layout, const Mesh& mesh);

/// The runs of whole parameters in a bucket of them that one of its owners updates, in the flat
/// order.
std::vector<FlatRange> whole_runs(const ParameterLayout& layout, const Bucket& bucket, int owner);

/// The frozen parameters, which every rank holds whole, each as the ranges before, of and after the
/// part that this rank saves; without quantised ones. Only that part is marked `owned`. Owners save
/// equal parts; without owners the first rank saves everything. Of parameters in frozen buckets
/// only the parts that the rank keeps.
std::vector<OwnedRange> frozen_ranges(const ParameterLayout& layout, const Mesh& mesh);

/// The gradients that a step has to clear: all but the overwritten groups. Ascending, with gaps.
std::vector<FlatRange> cleared_ranges(const ParameterLayout& layout);

}  // namespace gptrain
