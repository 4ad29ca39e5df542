// Token embeddings and learned positions (formulas: ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void embedding_forward(const EmbeddingForward& args);
void embedding_backward(const EmbeddingBackward& args);
void position_forward(const PositionForward& args);
void position_backward(const PositionBackward& args);

}  // namespace gptrain::cpu
