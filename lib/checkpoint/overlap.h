// What two parts of one tensor have in common.
#pragma once

#include <cstdint>
#include <functional>

#include "tensor/shard.h"

namespace gptrain {

bool intersect(const Box& a, const Box& b);

/// False only if the two shards of one tensor have no element in common; quick.
bool may_overlap(const Shard& a, const Shard& b);

/// Calls `visit(a_index, b_index, count)` for maximal runs of elements that are in both shards of
/// one tensor, in ascending order: `count` elements from the a_index-th of a's [flat_begin,
/// flat_end) on are those from the b_index-th of b's on.
void for_each_overlap(const Shard& a, const Shard& b,
                      const std::function<void(std::int64_t a_index, std::int64_t b_index,
                                               std::int64_t count)>& visit);

}  // namespace gptrain
