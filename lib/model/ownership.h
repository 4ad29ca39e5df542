// Which part of the flat buffers a rank updates: with the optimizer sharded its part of every
// bucket, else all of them.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "model/layout.h"

namespace gptrain {

/// A parameter, or the part of one, that this rank updates.
struct OwnedRange {
    const Parameter* parameter;
    Shard shard;             ///< the flat range of the parameter
    std::int64_t begin = 0;  ///< where it begins in the flat buffers
};

/// The part of a bucket that belongs to one of the ranks that share it.
Bucket part_of_bucket(const Bucket& bucket, int rank, int ranks);

/// In the order of the flat buffers. `sharers`: dp x cp.
std::vector<OwnedRange> owned_ranges(const ParameterLayout& layout, const Communicator& sharers,
                                     bool shard);

}  // namespace gptrain
