// GEMMs by our kernel for sm_90a.
#pragma once

#include "cuda/gemm/gemm.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda::sm90 {

/// Runs a GEMM that covers_gemm covers; with a_sums only if may_sum_rows is true. The summed dim is
/// divided in `parts` (fewer if it is short), whose sums are added in order: the bits depend on the
/// operands and on `parts` alone. a_totals gets the sums of rows, and a_sums is not written. Sums
/// are in fp32, of FP8 as Gemm::fast_accumulation states. c, GELU and SwiGLU and their derivatives
/// are those of the plain GEMM with an fp32 c, followed by the kernels that a plan has for separate
/// epilogues (cuda/gemm/plan.h). The c of a derivative of SwiGLU is not written. Starts over with
/// the context's scratch memory (UnitPlan::scratch_bytes).
void multiply(const Gemm& gemm, std::int64_t parts, const OpContext& context);
/// The part of it for FP8 operands, called by multiply alone.
void multiply_fp8(const Gemm& gemm, std::int64_t parts, const OpContext& context);

}  // namespace gptrain::cuda::sm90
