// Linear layers: GEMMs and their epilogues.
#pragma once

#include "backend/backend.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Each op is a GEMM with an epilogue, which its plan divides into calls of the library and of our
/// kernels (gemm/plan.h). Either way results are rounded once, but for gelu_input (gemm/gemm.h). A
/// GELU after a GEMM is a separate kernel on the stored sums, or, if the context need not be
/// deterministic, may be fused too.
///
/// The library's sums for a bias gradient are as reproducible as its GEMMs: the same bits at every
/// run of one version on one kind of GPU.
void run(const LinearForward& args, Gemms& gemms, const OpContext& context);
void run(const LinearInputGrad& args, Gemms& gemms, const OpContext& context);
void run(const LinearWeightGrad& args, Gemms& gemms, const OpContext& context);

std::int64_t linear_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
