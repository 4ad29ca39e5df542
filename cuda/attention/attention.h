// Attention, forward and backward (backend/ops.h), by tiles of queries against tiles of keys: the
// scores of one pair of tiles at a time (Dao, "FlashAttention-2", arXiv 2307.08691), tiles that the
// mask hides left out. Deterministic: every row of a result has one owner, which adds in one order.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void attention_forward(const AttentionForward& args, const OpContext& context);
void attention_backward(const AttentionBackward& args, const OpContext& context);
void merge_attention(const MergeAttention& args, const OpContext& context);

/// Of the backward; the others need none.
std::int64_t attention_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
