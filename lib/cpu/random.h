// Initial weights.
#pragma once

#include "tensor/shard.h"

namespace gptrain::cpu {

/// See Backend::init_normal.
void init_normal(const Tensor& x, const Shard& shard, std::uint64_t seed, float std);

}  // namespace gptrain::cpu
