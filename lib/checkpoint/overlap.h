// The overlap of two parts of one tensor.
#pragma once

#include <cstdint>
#include <functional>

#include "tensor/shard.h"

namespace gptrain {

bool intersect(const Box& a, const Box& b);

/// False only if two shards of one tensor have no element in common. Fast.
bool may_overlap(const Shard& a, const Shard& b);

/// Calls `visit(a_index, b_index, count)`, in ascending order, for maximal runs of elements in both
/// shards of one tensor: The `count` elements from index a_index on in a's [flat_begin, flat_end)
/// equal those from b_index on in b's.
void for_each_overlap(const Shard& a, const Shard& b,
                      const std::function<void(std::int64_t a_index, std::int64_t b_index,
                                               std::int64_t count)>& visit);

}  // namespace gptrain
