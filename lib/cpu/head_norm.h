// RMSNorm of the heads of q and k (formula: norm_ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const HeadNormForward& args);
void run(const HeadNormBackward& args, Scratch& scratch);

/// For the backward.
std::int64_t head_norm_scratch_bytes(std::int64_t tokens, std::int64_t head_dim);

}  // namespace gptrain::cpu
