// Attention sinks.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const SinkForward& args, const OpContext& context);
/// Takes as much scratch memory as portable_attention_backward.
void run(const SinkBackward& args, const OpContext& context);

}  // namespace gptrain::cuda
