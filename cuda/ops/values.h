// Fills, casts and sums.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const Fill& args, const OpContext& context);
void run(const Cast& args, const OpContext& context);
void run(const Add& args, const OpContext& context);
void run(const SumRows& args, const OpContext& context);

}  // namespace gptrain::cuda
