// The GEMMs of a grouped linear layer by our kernel for sm_90a.
#pragma once

#include "cuda/gemm/grouped_gemm.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda::sm90 {

/// Runs GEMMs that covers_grouped covers, with fp32 sums. A bias is added to the sums before they
/// are rounded. The terms of a sum are added in an order that depends only on the shapes and, for
/// weight gradients, on the number of the expert's rows. Starts over with the context's scratch
/// memory (4 bytes).
void multiply(const GroupedGemm& gemm, const OpContext& context);

}  // namespace gptrain::cuda::sm90
