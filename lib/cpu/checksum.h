// A checksum of a tensor's bytes (formula: Backend::checksum).
#pragma once

#include "tensor/tensor.h"

namespace gptrain::cpu {

void checksum(const Tensor& x, const Tensor& sum);

}  // namespace gptrain::cpu
