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
/// deterministic, may be fused too.
///
/// The library also sums dy for the bias gradient while the weight gradient's GEMM reads it, unless
/// it cannot or that is slower; a separate kernel (linear_bias.h) then reads dy again. The library
/// overwrites where dbias accumulates, so its sums go to scratch memory and a kernel adds them.
/// They are as reproducible as its GEMMs: the same bits at every run of one version on one kind of
/// GPU.
void run(const LinearForward& args, Gemms& gemms, const OpContext& context);
void run(const LinearInputGrad& args, Gemms& gemms, const OpContext& context);
void run(const LinearWeightGrad& args, Gemms& gemms, const OpContext& context);

std::int64_t linear_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
