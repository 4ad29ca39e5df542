// Rows of a GEMM of FP8 in blocks, as plainly as they can be computed. Tuning compares our kernel
// for sm_90a with them where the library has no such GEMM.
#pragma once

#include "cuda/gemm/gemm.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// The rows of c that result_difference compares: c = a b + bias, or c += a b, for f8e4m3 in blocks
/// of 128 elements of K and a bf16 or fp32 c. The products of a block are added in fp32 in their
/// order, then scaled.
void multiply_plain_rows(const Gemm& gemm, const Stream& stream);

}  // namespace gptrain::cuda
