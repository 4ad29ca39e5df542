// Token embeddings and learned positions (formulas: model_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const EmbeddingForward& args);
void run(const EmbeddingBackward& args);
void run(const PositionForward& args);
void run(const PositionBackward& args);

}  // namespace gptrain::cpu
