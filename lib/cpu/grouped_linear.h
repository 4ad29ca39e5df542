// Linear layers with a weight for each expert.
#pragma once

#include "backend/ops.h"
#include "cpu/gemm.h"

namespace gptrain::cpu {

/// Threads share blocks of rows and columns of each expert, and multiply them with `gemms`, each by
/// itself. One expert alone is a linear layer (linear.h), with the same bits.
void run(const GroupedForward& args, Gemms& gemms, Scratch& scratch);
void run(const GroupedInputGrad& args, Gemms& gemms, Scratch& scratch);
void run(const GroupedWeightGrad& args, Gemms& gemms, Scratch& scratch);

std::int64_t grouped_scratch_bytes(DType compute, int threads);

}  // namespace gptrain::cpu
