// Attention by the units that sm_90a has for it: bulk copies of tiles, products of warpgroups, and
// registers moved from the warps that copy to those that compute. After Shah et al.,
// "FlashAttention-3" (arXiv 2407.08608). bf16, D 64 or 128; everything else as backend/ops.h says.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda::sm90 {

/// Whether these kernels can do it, of an op that attention_params accepts. They run on devices of
/// compute capability 9.0 only.
bool covers_attention(const AttentionForward& args);
bool covers_attention(const AttentionBackward& args);

void attention_forward(const AttentionForward& args, const OpContext& context);
/// Deterministic: dq of a tile of queries is summed up in fp32 from the last tile of keys to the
/// first.
void attention_backward(const AttentionBackward& args, const OpContext& context);

/// Of either, for these sizes and all smaller seq_length.
std::int64_t attention_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda::sm90
