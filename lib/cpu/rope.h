// Rotary position embedding (formula: model_ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const Rope& args, Scratch& scratch);

std::int64_t rope_scratch_bytes(std::int64_t head_dim);

}  // namespace gptrain::cpu
