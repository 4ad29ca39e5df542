// Token and position embeddings.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const EmbeddingForward& args, const OpContext& context);
void run(const EmbeddingBackward& args, const OpContext& context);
void run(const PositionForward& args, const OpContext& context);
void run(const PositionBackward& args, const OpContext& context);

std::int64_t embedding_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
