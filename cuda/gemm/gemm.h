// Describes one GEMM and its epilogue.
#pragma once

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "tensor/tensor.h"

namespace gptrain::cuda {

/// A matrix in device memory; one of its strides is 1. In FP8 (f8e4m3, f8e5m2) an element is the
/// stored value times a scale in device memory.
struct Matrix {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::int64_t col_stride = 1;
    const float* scale = nullptr;  ///< FP8 only, otherwise null

    Matrix() = default;
    /// From a tensor of rank 2 with any row stride.
    explicit Matrix(const Tensor& tensor)
        : data(tensor.data()),
          dtype(tensor.dtype()),
          rows(tensor.size(0)),
          cols(tensor.size(1)),
          row_stride(tensor.stride(0)) {
        GPTRAIN_CHECK(tensor.rank() == 2 && (tensor.stride(1) == 1 || cols == 1), "rows of ",
                      tensor.shape().to_text());
    }

    Matrix(const Tensor& fp8, const Tensor& fp8_scale) : Matrix(fp8) {
        scale = fp8_scale.as<float>();
    }

    bool is_fp8() const { return size_of(dtype) == 1; }
    Matrix transposed() const {
        Matrix result = *this;
        std::swap(result.rows, result.cols);
        std::swap(result.row_stride, result.col_stride);
        return result;
    }
};

/// c = a b, or c += a b with `accumulate`.
///
/// `bias`, `gelu_input` and `accumulate` exclude each other; `gelu` works alone or with `bias`:
///  - `bias` (a row of c's width and dtype) is added to every row before the sum is rounded.
///  - `gelu_input` u (of c's shape and dtype, any row stride): c = (a b) gelu'(u), tanh form,
///    rounded once.
///  - `gelu` (of c's shape and dtype): also computes gelu = gelu(a b + bias), tanh form, from the
///    sums before they are rounded to c.
///
/// Dtypes: a and b are both fp32, both bf16 or both fp16, and c has their dtype or fp32. Or both
/// are FP8, not both f8e5m2, with the reduction dim contiguous in both (a's col_stride and b's
/// row_stride are 1), and c is bf16, fp16 or fp32. c's col_stride is 1; c does not overlap the
/// others.
struct Gemm {
    Matrix a;                         ///< [M, K]
    Matrix b;                         ///< [K, N]
    Matrix c;                         ///< [M, N]
    const std::byte* bias = nullptr;  ///< [N]
    Matrix gelu_input = {};           ///< [M, N]; no data: not used
    Matrix gelu = {};                 ///< [M, N]; no data: not used
    bool accumulate = false;
    bool fast_accumulation = false;  ///< FP8 only: sums may have fewer bits than fp32

    bool has_epilogue() const {
        return bias != nullptr || gelu_input.data != nullptr || gelu.data != nullptr;
    }
};

}  // namespace gptrain::cuda
