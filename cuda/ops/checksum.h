// A checksum of a tensor's bytes.
#pragma once

#include "cuda/runtime/context.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

void checksum(const Tensor& x, const Tensor& sum, const OpContext& context);

/// For a tensor of any size.
std::int64_t checksum_scratch_bytes();

}  // namespace gptrain::cuda
