// Linear layers and their biases.
#pragma once

#include "backend/ops.h"
#include "cpu/gemm.h"

namespace gptrain::cpu {

/// `gemms` multiplies fp32, and bf16 if oneDNN supports it on this machine. Other operands are
/// widened to fp32 block by block, and the sums are rounded once.
void linear_forward(const LinearForward& args, Gemms& gemms, Scratch& scratch);
void linear_input_grad(const LinearInputGrad& args, Gemms& gemms, Scratch& scratch);
void linear_weight_grad(const LinearWeightGrad& args, Gemms& gemms, Scratch& scratch);
void bias_grad(const Tensor& dy, const Tensor& dbias);
void add_bias(const Tensor& y, const Tensor& bias);

std::int64_t linear_scratch_bytes(DType compute, int threads);

}  // namespace gptrain::cpu
