// Checkpoints hold fp32. These convert the values of tensors that are in 16 bits in memory.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace gptrain {

/// to = from, values of the dtype bf16 or fp16.
void widen(std::span<float> to, std::span<const std::byte> from, DType dtype);

/// Rounds fp32 values to `dtype` (to nearest even), in place; returns the bytes of the result. fp32
/// stays as it is.
std::span<const std::byte> narrow(std::span<float> values, DType dtype);

}  // namespace gptrain
