// Attention, forward and backward (backend/ops.h). Uses the sm_90a kernels if the context asks for
// them and they cover the op, otherwise the portable ones. All process tiles of queries against
// tiles of keys, with the scores of one pair of tiles at a time (Dao, "FlashAttention-2", arXiv
// 2307.08691), and skip tiles that the mask hides. Deterministic: each row of a result has one
// owner, which adds in a fixed order.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const AttentionForward& args, const OpContext& context);
void run(const AttentionBackward& args, const OpContext& context);

/// For forward or backward, whichever kernels run.
std::int64_t attention_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
