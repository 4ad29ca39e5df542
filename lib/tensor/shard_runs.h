// The place of a shard's flat range in the whole tensor: runs that are contiguous there, and the
// blocks of the whole tensor's elements that it covers.
#pragma once

#include "tensor/shard.h"

namespace gptrain {

/// The row-major elements of a box that cuts one dim at most: runs of `length` elements, the first
/// at `base` in the whole tensor, each `stride` behind the one before.
struct ShardRuns {
    std::int64_t base = 0;
    std::int64_t length = 1;
    std::int64_t stride = 1;
    /// Row-major index in the whole tensor of the box's element `flat`.
    constexpr std::int64_t index(std::int64_t flat) const {
        return flat < length ? base + flat : base + flat / length * stride + flat % length;
    }
};

/// A box that cuts more than one dim is an Error (bug).
ShardRuns runs_of(const Shard& shard);

/// The shard of a tensor that holds `values` numbers for each block of `block` consecutive elements
/// of the whole tensor, the last of which may be shorter. Its shape is that of the tensor, whose
/// last dims are merged until their product is a multiple of the block: [O, I] becomes [O, I /
/// block x values], or else [O I / block x values], rounded up. The shard begins at a block, and
/// ends at one or at the end of the tensor; else an Error (bug).
Shard block_shard(const Shard& shard, std::int64_t block, std::int64_t values);

}  // namespace gptrain
