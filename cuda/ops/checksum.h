// A number that changes with the bytes of a tensor.
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

void checksum(const Tensor& x, const Tensor& sum, const OpContext& context);

/// Of any tensor.
std::int64_t checksum_scratch_bytes();

}  // namespace gptrain::cuda
