// Attention kernels for every device: on tensor cores if sizes and alignment allow it, otherwise in
// plain fp32 arithmetic.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// They do not find the amax of an op, nor write o8.
void portable_attention_forward(const AttentionForward& args, const OpContext& context);
void portable_attention_backward(const AttentionBackward& args, const OpContext& context);

/// For the backward; the forward needs none.
std::int64_t portable_attention_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
