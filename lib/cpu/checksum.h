// A number that changes with the bytes of a tensor.
#pragma once

#include "tensor/tensor.h"

namespace gptrain::cpu {

void checksum(const Tensor& x, const Tensor& sum);

}  // namespace gptrain::cpu
