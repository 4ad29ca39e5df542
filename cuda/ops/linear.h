// Linear layers: GEMMs and their epilogues.
#pragma once

#include "backend/backend.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// The library fuses bias and gelu_input into the GEMM. If it cannot, or if tuning found that
/// slower, the GEMM keeps its sums in fp32, a few rows at a time, and our own kernel applies the
/// epilogue. Either way results are rounded once; Gemms documents what the choice depends on. A
/// GELU after a GEMM is a separate kernel on the stored sums, or, if the context need not be
/// deterministic, may be fused too. A bias gradient is always a separate kernel (linear_bias.h),
/// because the library's epilogue overwrites where dbias accumulates.
void run(const LinearForward& args, Gemms& gemms, const OpContext& context);
void run(const LinearInputGrad& args, Gemms& gemms, const OpContext& context);
void run(const LinearWeightGrad& args, Gemms& gemms, const OpContext& context);

std::int64_t linear_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
