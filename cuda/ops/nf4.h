// Matrices in NF4 (formulas: backend/nf4_ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const FromNf4& args, const OpContext& context);
void run(const GroupedFromNf4& args, const OpContext& context);
void run(const Nf4LinearForward& args, const OpContext& context);

}  // namespace gptrain::cuda
