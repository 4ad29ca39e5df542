// Clearing of gradients, their norm, and AdamW, many tensors per launch.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const Clear& args, const OpContext& context);
/// In fp64, in an order that depends only on the sizes of the tensors.
void run(const SquareSum& args, const OpContext& context);
void run(const FindNotFinite& args, const OpContext& context);
void run(const AdamW& args, const OpContext& context);

/// For any number of parameters.
std::int64_t optimizer_scratch_bytes();

}  // namespace gptrain::cuda
