// Which ranges of the flat buffers a rank updates: its part of every bucket if the optimizer is
// sharded, else everything.
#pragma once

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

/// Owned ranges in the order of the flat buffers. `sharers` is dp x cp.
std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Communicator& sharers,
                                     bool shard);

}  // namespace gptrain
