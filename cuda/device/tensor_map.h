// The descriptors with which bulk copies address an attention tensor or a matrix.
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
/// The same for all 16-bit elements and a D that is a multiple of 8: what a box has behind D reads
/// as 0 and is not written.
TensorMap padded_tensor_map(const Tensor& tensor, int rows);

/// A row-major matrix of 16-bit elements, as matrix_map takes it: `data` and `stride` (in elements)
/// are multiples of 16 bytes, and `cols` of 8.
struct MapMatrix {
    std::byte* data;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t stride;
};
/// For boxes of `rows` rows of 64 columns, whose places are {column, 0, row, 0}. What is outside of
/// the matrix reads as 0 and is not written.
TensorMap matrix_map(const MapMatrix& matrix, int rows);

/// The parameters of a map for the driver, with the innermost dim first: D, heads, S, B.
struct TensorMapRequest {
    std::byte* data;
    std::uint64_t sizes[4];         ///< in elements
    std::uint64_t stride_bytes[3];  ///< of heads, S and B
    std::uint32_t box[4];           ///< in elements
};
TensorMapRequest tensor_map_request(const Tensor& tensor, int rows);
TensorMapRequest matrix_map_request(const MapMatrix& matrix, int rows);
/// Asks the driver for a map of bf16 elements, or of others of 16 bits, swizzled in rows of 128
/// bytes, with 0 outside of the tensor. An Error (usage) if the driver has no such maps.
TensorMap encode(const TensorMapRequest& request);

}  // namespace gptrain::cuda
