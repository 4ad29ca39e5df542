// Attention with sm_90a features: bulk copies of tiles, warpgroup matrix multiplies, and registers
// moved from copying warps to computing warps. After Shah et al., "FlashAttention-3" (arXiv
// 2407.08608). bf16 with D of 64 or 128; everything else as in backend/ops.h.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda::sm90 {

/// True if these kernels support the op, which attention_params must accept. They run only on
/// devices of compute capability 9.0. Scores with a soft cap or ALiBi they leave to the portable
/// kernels: the softmax has no registers to spare.
bool covers_attention(const AttentionForward& args);
bool covers_attention(const AttentionBackward& args);

/// True if the functions below find the amax, or write o8, of an op that wants it; with dropout
/// they do not.
inline bool serves_fp8(const AttentionForward& args) {
    return args.dropout.probability == 0;
}
void attention_forward(const AttentionForward& args, const OpContext& context);
/// Deterministic: dq of a tile of queries is summed in fp32 from the first tile of keys to the
/// last.
void attention_backward(const AttentionBackward& args, const OpContext& context);

/// For forward and backward, with these limits and any smaller seq_length.
std::int64_t attention_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda::sm90
