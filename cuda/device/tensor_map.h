// The descriptor with which bulk copies address an attention tensor.
#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace gptrain::cuda {

/// Describes a tensor [B, S, heads, D] to the tensor memory accelerator: address, sizes, strides,
/// and the box that one copy moves: `rows` rows of 64 features of one head (fewer if D is smaller),
/// swizzled as by swizzle_128. Kernels take it as `const __grid_constant__ TensorMap`.
struct alignas(128) TensorMap {
    std::byte opaque[128];
};

/// For bf16 with D contiguous and a multiple of 64, and other strides multiples of 16 bytes.
TensorMap tensor_map(const Tensor& tensor, int rows);

}  // namespace gptrain::cuda
