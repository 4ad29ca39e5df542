// Which ranges of the flat buffers a rank updates: its part of every bucket if the optimizer is
// sharded, else everything; who sends the new weights; and which frozen parameters it saves.
#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "model/layout.h"

namespace gptrain {

/// The part of a parameter that this rank updates.
struct OwnedRange {
    const Parameter* parameter;
    Shard shard;             ///< that part, as a flat range of the parameter
    std::int64_t begin = 0;  ///< its position in the flat buffers
};

/// The part of a bucket that belongs to `rank` of `ranks`.
FlatRange part_of_bucket(const FlatRange& bucket, int rank, int ranks);

/// Owned ranges in the order of the flat buffers.
std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Communicator& dp_cp,
                                     bool shard);

/// A range of new weights that is sent at once.
struct WeightMessage {
    FlatRange range;
    /// The rank that has updated all of it; empty: each its part of a bucket.
    std::optional<int> owner;
};

/// How a sharded optimizer's new weights reach all ranks of dp x cp, in the order of the flat
/// buffers.
std::vector<WeightMessage> weight_messages(const ParameterLayout& layout);

/// The frozen parameters, which every rank holds whole, each as the ranges before, of and after the
/// part that this rank saves; without those in int8. Only that part is marked `owned`. With `shard`
/// all ranks of dp x cp save equal parts, else the first one everything.
std::vector<OwnedRange> frozen_ranges(const ParameterLayout& layout, const Communicator& dp_cp,
                                      bool shard);

}  // namespace gptrain
