// How bulk copies see a tensor of attention.
#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace gptrain::cuda {

/// What the tensor memory accelerator knows of a tensor [B, S, heads, D]: address, sizes, strides,
/// and the box that one copy moves: `rows` rows of 64 features of one head (fewer where D is
/// smaller), swizzled as by swizzle_128. Kernels take it as `const __grid_constant__ TensorMap`.
struct alignas(128) TensorMap {
    std::byte opaque[128];
};

/// D contiguous, the other strides multiples of 16 bytes; bf16, D a multiple of 64.
TensorMap tensor_map(const Tensor& tensor, int rows);

}  // namespace gptrain::cuda
