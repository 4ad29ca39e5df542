// Token and position embeddings.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void embedding_forward(const EmbeddingForward& args, const OpContext& context);
void embedding_backward(const EmbeddingBackward& args, const OpContext& context);
void position_forward(const PositionForward& args, const OpContext& context);
void position_backward(const PositionBackward& args, const OpContext& context);

std::int64_t embedding_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
