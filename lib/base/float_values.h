// fp32 values from and to the bytes of fp32, bf16 and fp16, as files and tensors hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace gptrain {

/// to[i] = element first + i stride of `from`.
void to_floats(std::span<const std::byte> from, DType dtype, std::int64_t first,
               std::int64_t stride, std::span<float> to);

/// Rounds the values to `dtype` (to nearest even), in place; returns the bytes of the result.
std::span<const std::byte> from_floats(std::span<float> values, DType dtype);

}  // namespace gptrain
