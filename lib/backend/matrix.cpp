#include "backend/matrix.h"

#include <utility>

namespace gptrain {

Matrix::Matrix(const Tensor& tensor)
    : data(tensor.data()),
      dtype(tensor.dtype()),
      rows(tensor.size(0)),
      cols(tensor.size(1)),
      row_stride(tensor.stride(0)) {
    GPTRAIN_CHECK(tensor.rank() == 2 && (tensor.stride(1) == 1 || cols == 1), "rows of ",
                  tensor.shape().to_text());
}

Matrix::Matrix(const Tensor& fp8, const Tensor& fp8_scale) : Matrix(fp8) {
    scale = fp8_scale.as<float>();
    if (fp8_scale.rank() != 2) return;
    const bool by_rows = fp8_scale.shape() == fp8_row_scales(rows, cols);
    GPTRAIN_CHECK(
        fp8_scale.contiguous() && (by_rows || fp8_scale.shape() == fp8_block_scales(rows, cols)),
        "scales of ", fp8_scale.shape().to_text(), " for ", fp8.shape().to_text());
    const std::int64_t step = fp8_scale.size(1);
    scales = by_rows ? ScaleGrid{1, fp8_block, 1, step} : ScaleGrid{fp8_block, fp8_block, step, 1};
}

Matrix::Matrix(float* values, std::int64_t row_count, std::int64_t col_count)
    : data(reinterpret_cast<std::byte*>(values)),
      rows(row_count),
      cols(col_count),
      row_stride(col_count) {}

Matrix Matrix::transposed() const {
    Matrix result = *this;
    std::swap(result.rows, result.cols);
    std::swap(result.row_stride, result.col_stride);
    std::swap(result.scales.rows, result.scales.cols);
    std::swap(result.scales.row_step, result.scales.col_step);
    return result;
}

Matrix Matrix::block(std::int64_t row, std::int64_t row_count, std::int64_t col,
                     std::int64_t col_count) const {
    Matrix result = *this;
    result.data += (row * row_stride + col * col_stride) * size_of(dtype);
    result.rows = row_count;
    result.cols = col_count;
    if (in_blocks()) {
        GPTRAIN_CHECK(row % scales.rows == 0 && col % scales.cols == 0, "row ", row, ", column ",
                      col, " inside a block");
        result.scale += row / scales.rows * scales.row_step + col / scales.cols * scales.col_step;
    }
    return result;
}

Matrix matrix_by_rows(const Tensor& tensor, const Fp8Matrix& fp8) {
    return fp8.empty() ? Matrix(tensor) : Matrix(fp8.rowwise, fp8.scale);
}

Matrix matrix_by_columns(const Tensor& tensor, const Fp8Matrix& fp8) {
    if (fp8.empty()) return Matrix(tensor);
    return Matrix(fp8.columnwise, fp8.of_columns()).transposed();
}

}  // namespace gptrain
