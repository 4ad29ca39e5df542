// A matrix as GEMMs see it.
#pragma once

#include <cstdint>

#include "backend/value_ops.h"

namespace gptrain {

/// Blocks of an FP8 matrix that share a scale, and the steps from a block's scale to the next.
struct ScaleGrid {
    std::int64_t rows = 0;  ///< 0: the matrix has one scale
    std::int64_t cols = 0;
    std::int64_t row_step = 0;
    std::int64_t col_step = 0;
};

/// A matrix in backend memory; one of its strides is 1. In FP8 (f8e4m3, f8e5m2) an element is the
/// stored value times a scale, which is in backend memory too.
struct Matrix {
    std::byte* data = nullptr;
    DType dtype = DType::f32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::int64_t col_stride = 1;
    const float* scale = nullptr;  ///< FP8 only, otherwise null; of the first block
    ScaleGrid scales = {};

    Matrix() = default;
    /// From a tensor of rank 2 with any row stride.
    explicit Matrix(const Tensor& tensor);
    Matrix(const Tensor& fp8, const Tensor& fp8_scale);
    /// fp32, without gaps.
    Matrix(float* values, std::int64_t row_count, std::int64_t col_count);

    bool is_fp8() const { return size_of(dtype) == 1; }
    /// True if it is FP8 with scales for blocks.
    bool in_blocks() const { return scales.rows > 0; }
    Matrix transposed() const;
    /// In blocks, the part consists of whole ones.
    Matrix block(std::int64_t row, std::int64_t row_count, std::int64_t col,
                 std::int64_t col_count) const;
};

/// The tensor, or its FP8 form by rows if given.
Matrix matrix_by_rows(const Tensor& tensor, const Fp8Matrix& fp8);
/// The same matrix, but the FP8 form is the one by columns.
Matrix matrix_by_columns(const Tensor& tensor, const Fp8Matrix& fp8);

}  // namespace gptrain
