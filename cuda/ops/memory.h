// Copies. (Allocation is in runtime/runtime.h.)
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

/// Either may be in host memory that the device can access. The runtime copies contiguous tensors
/// and rows of bytes; a kernel copies all others.
void copy(const Tensor& to, const Tensor& from, const OpContext& context);

}  // namespace gptrain::cuda
