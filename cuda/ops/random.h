// Weight initialization.
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/shard.h"

namespace gptrain::cuda {

/// See Backend::init_normal.
void init_normal(const Tensor& x, const Shard& shard, std::uint64_t seed, float std,
                 const OpContext& context);

}  // namespace gptrain::cuda
