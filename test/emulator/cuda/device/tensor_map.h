// Twin of cuda/device/tensor_map.h: the map as plain numbers.
#pragma once

#include "tensor/tensor.h"

namespace gptrain::cuda {

struct alignas(64) TensorMap {
    std::byte* data;
    std::int64_t sizes[4];         ///< D, heads, S, B
    std::int64_t stride_bytes[4];  ///< of the same
    int rows;                      ///< of a box
};

TensorMap tensor_map(const Tensor& tensor, int rows);

}  // namespace gptrain::cuda
