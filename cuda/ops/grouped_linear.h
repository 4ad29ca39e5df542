// Linear layers of experts (formulas: expert_ops.h).
#pragma once

#include "backend/ops.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// By the kernel for sm_90a where the tuning table says so, otherwise by one of mma.sync. Tensor
/// cores multiply 16-bit operands and add in fp32; fp32 operands keep full precision. The
/// terms of a sum are added in an order that depends only on the shapes and, for weight gradients,
/// on the number of the expert's rows.
void run(const GroupedForward& args, Gemms& gemms, const OpContext& context);
void run(const GroupedInputGrad& args, Gemms& gemms, const OpContext& context);
void run(const GroupedWeightGrad& args, Gemms& gemms, const OpContext& context);

}  // namespace gptrain::cuda
