#include "cuda/device/tensor_map.h"

#include "base/error.h"

namespace gptrain::cuda {
namespace {

/// Columns of a box: the limit of the swizzle.
constexpr std::int64_t box_columns = 64;

/// Of a tensor whose D is a multiple of `multiple`.
TensorMapRequest request_of(const Tensor& tensor, int rows, bool right_dtype,
                            std::int64_t multiple) {
    GPTRAIN_CHECK(tensor.rank() == 4 && right_dtype && tensor.size(3) % multiple == 0 &&
                      tensor.stride(3) == 1,
                  "no tensor map of ", tensor.shape().to_text(), " ", name_of(tensor.dtype()));
    TensorMapRequest request = {.data = tensor.data(),
                                .sizes = {},
                                .stride_bytes = {},
                                .box = {box_columns, 1, static_cast<std::uint32_t>(rows), 1}};
    std::int64_t inner = 1;  // elements of all dims inside of this one
    for (int i = 0; i < 4; ++i) {
        const int dim = 3 - i;
        // The stride of a dim of size 1 is never used, but the driver checks it.
        const std::int64_t stride = tensor.size(dim) == 1 ? inner : tensor.stride(dim);
        request.sizes[i] = static_cast<std::uint64_t>(tensor.size(dim));
        if (i > 0) request.stride_bytes[i - 1] = static_cast<std::uint64_t>(stride) * 2;
        inner = stride * tensor.size(dim);
    }
    return request;
}

}  // namespace

TensorMapRequest tensor_map_request(const Tensor& tensor, int rows) {
    return request_of(tensor, rows, tensor.dtype() == DType::bf16, box_columns);
}

TensorMap padded_tensor_map(const Tensor& tensor, int rows) {
    constexpr std::int64_t piece = 8;  // elements in 16 bytes
    return encode(request_of(tensor, rows, size_of(tensor.dtype()) == 2, piece));
}

TensorMapRequest matrix_map_request(const MapMatrix& matrix, int rows) {
    const auto stride = static_cast<std::uint64_t>(matrix.stride) * 2;
    const auto count = static_cast<std::uint64_t>(matrix.rows);
    // One head of one sequence.
    return {.data = matrix.data,
            .sizes = {static_cast<std::uint64_t>(matrix.cols), 1, count, 1},
            .stride_bytes = {stride, stride, stride * count},
            .box = {box_columns, 1, static_cast<std::uint32_t>(rows), 1}};
}

TensorMap matrix_map(const MapMatrix& matrix, int rows) {
    return encode(matrix_map_request(matrix, rows));
}

TensorMap tensor_map(const Tensor& tensor, int rows) {
    return encode(tensor_map_request(tensor, rows));
}

}  // namespace gptrain::cuda
