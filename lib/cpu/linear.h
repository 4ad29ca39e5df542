// GEMMs of linear layers.
#pragma once

#include "backend/ops.h"
#include "cpu/gemm.h"

namespace gptrain::cpu {

/// `gemms` multiplies fp32, and bf16 if oneDNN supports it on this machine. Other operands are
/// widened to fp32 block by block, and the sums are rounded once.
void run(const LinearForward& args, Gemms& gemms, Scratch& scratch);
void run(const LinearInputGrad& args, Gemms& gemms, Scratch& scratch);
void run(const LinearWeightGrad& args, Gemms& gemms, Scratch& scratch);

std::int64_t linear_scratch_bytes(DType compute, int threads);

}  // namespace gptrain::cpu
