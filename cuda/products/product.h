// A matrix product, as it is asked for.
#pragma once

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

/// A matrix in device memory; one of its strides is 1. In 8 bits (f8e4m3, f8e5m2) its elements are
/// what is stored times a scale that lies in device memory.
struct Matrix {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::int64_t col_stride = 1;
    const float* scale = nullptr;  ///< with 8 bits, else null

    Matrix() = default;
    /// A tensor of rank 2 with any row stride.
    explicit Matrix(const Tensor& tensor)
        : data(tensor.data()),
          dtype(tensor.dtype()),
          rows(tensor.size(0)),
          cols(tensor.size(1)),
          row_stride(tensor.stride(0)) {
        GPTRAIN_CHECK(tensor.rank() == 2 && (tensor.stride(1) == 1 || cols == 1), "rows of ",
                      tensor.shape().to_text());
    }

    Matrix(const Tensor& float8, const Tensor& float8_scale) : Matrix(float8) {
        scale = float8_scale.as<float>();
    }

    bool is_float8() const { return size_of(dtype) == 1; }
    Matrix transposed() const {
        Matrix result = *this;
        std::swap(result.rows, result.cols);
        std::swap(result.row_stride, result.col_stride);
        return result;
    }
};

/// c = a b, or c += a b with `accumulate`.
/// `bias` (a row of c's width, of c's dtype) is added to every row before the sum is rounded.
/// `gelu_input` u (of c's shape and dtype, any row stride): c = (a b) gelu'(u), tanh form, rounded
/// once. At most one of the three.
/// `gelu` (of c's shape and dtype): gelu = gelu(a b + bias) as well, tanh form, from the sums
/// before they are rounded to c; without `gelu_input` and `accumulate`. a and b are both fp32, both
/// bf16 or both fp16, and c is of their dtype or fp32; or both are in 8 bits, not both f8e5m2, and
/// the elements that are multiplied lie side by side in both (a's col_stride and b's row_stride are
/// 1), and c is bf16, fp16 or fp32. c's col_stride is 1; c overlaps none of the others.
struct Product {
    Matrix a;                         ///< [M, K]
    Matrix b;                         ///< [K, N]
    Matrix c;                         ///< [M, N]
    const std::byte* bias = nullptr;  ///< [N]
    Matrix gelu_input = {};           ///< [M, N]; without data: not wanted
    Matrix gelu = {};                 ///< [M, N]; without data: not wanted
    bool accumulate = false;
    bool rough_sums = false;  ///< with 8 bits: sums may have fewer bits than fp32, which is faster

    bool has_epilogue() const {
        return bias != nullptr || gelu_input.data != nullptr || gelu.data != nullptr;
    }
};

}  // namespace gptrain::cuda
