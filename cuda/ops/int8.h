// Matrices of 8-bit integers (formulas: backend/value_ops.h, backend/model_ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const ToInt8& args, const OpContext& context);
void run(const FromInt8& args, const OpContext& context);
void run(const GroupedFromInt8& args, const OpContext& context);
void run(const Int8LinearForward& args, const OpContext& context);

}  // namespace gptrain::cuda
