// Attention, forward and backward (backend/ops.h): by the kernels for sm_90a where the context asks
// for them and they cover the op, else by the portable ones. All work by tiles of queries against
// tiles of keys: the scores of one pair of tiles at a time (Dao, "FlashAttention-2", arXiv
// 2307.08691), tiles that the mask hides left out. Deterministic: every row of a result has one
// owner, which adds in one order.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void attention_forward(const AttentionForward& args, const OpContext& context);
void attention_backward(const AttentionBackward& args, const OpContext& context);

/// Of either, by whichever kernels.
std::int64_t attention_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
