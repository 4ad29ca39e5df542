// The descriptor with which bulk copies address an attention tensor.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// The parameters of a map for the driver, with the innermost dim first: D, heads, S, B.
struct TensorMapRequest {
    std::byte* data;
    std::uint64_t sizes[4];         ///< in elements
    std::uint64_t stride_bytes[3];  ///< of heads, S and B
    std::uint32_t box[4];           ///< in elements
};
TensorMapRequest tensor_map_request(const Tensor& tensor, int rows);
/// Asks the driver for a map of bf16 elements, swizzled in rows of 128 bytes, with 0 outside of the
/// tensor. An Error (usage) if the driver has no such maps.
TensorMap encode(const TensorMapRequest& request);

}  // namespace gptrain::cuda
