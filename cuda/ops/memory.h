// Copies, constant values and casts. (Allocation is in runtime/runtime.h.)
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

/// Either may lie in host memory that the device reaches. Contiguous tensors and rows of bytes are
/// copied by the runtime, all others by a kernel.
void copy(const Tensor& to, const Tensor& from, const OpContext& context);
void fill(const Tensor& x, float value, const OpContext& context);
void cast(const Tensor& to, const Tensor& from, const OpContext& context);
void sum_rows(const Tensor& to, const Tensor& rows, const OpContext& context);

}  // namespace gptrain::cuda
