// FP8 matrices (formulas: backend/value_ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Reads x once.
void run(const UpdateAmax& args, const OpContext& context);
/// Reads x once, whether rows, columns or both are wanted.
void run(const ToFp8& args, const OpContext& context);

}  // namespace gptrain::cuda
