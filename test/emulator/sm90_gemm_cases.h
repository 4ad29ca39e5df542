// Linear ops, those of experts too, that reach the GEMM kernels for sm_90a in all its layouts and
// with all its results.
#pragma once

#include <vector>

#include "ops/op_case.h"

namespace gptrain {

/// Sizes that end inside of tiles, on two clusters that take several units of work each. All
/// operands are small integers, so that all sums are exact in whatever order they are added.
std::vector<OpCase> sm90_gemm_cases(DType dtype);

/// The same for operands of FP8, with one scale and with scales for blocks.
std::vector<OpCase> sm90_fp8_cases();

/// A weight gradient with a bias gradient whose sums are rounded.
OpCase sm90_rounded_case();

/// The ones that together reach every place of the kernel that orders accesses.
std::vector<OpCase> few_sm90_gemm_cases();

}  // namespace gptrain
