#include "cuda/gemm/plain_rows.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/device/device.cuh"
#include "cuda/gemm/agreement.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 128;

/// Rows of a or columns of b, with the summed dim contiguous.
struct BlockOperand {
    const F8E4M3* values;
    std::int64_t stride;
    const float* scales;
    std::int64_t count_in_block;  ///< of rows or columns
    std::int64_t step;            ///< to the scale of the next block of these
    std::int64_t k_step;          ///< to the scale of the next block of the summed dim

    __device__ float value(std::int64_t index, std::int64_t k) const {
        return to_float(values[index * stride + k]);
    }
    __device__ float scale(std::int64_t index, std::int64_t k) const {
        return scales[index / count_in_block * step + k / fp8_block * k_step];
    }
};

template <class T>
struct PlainRowsArgs {
    BlockOperand a;
    BlockOperand b;
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t length;
    T* c;
    std::int64_t c_stride;
    const T* bias;
    bool accumulate;
};

/// A thread has a column of one of the rows.
template <class T>
__global__ void __launch_bounds__(block_size) plain_rows_kernel(PlainRowsArgs<T> args) {
    const std::int64_t column = std::int64_t{block_index().x} * block_size + thread_index();
    const std::int64_t row = std::min(block_index().y * compared_row_distance, args.rows - 1);
    if (column >= args.columns) return;
    float sum = 0;
    for (std::int64_t block = 0; block < args.length; block += fp8_block) {
        float of_block = 0;
        for (std::int64_t k = block; k < std::min(block + fp8_block, args.length); ++k)
            of_block = fma(args.a.value(row, k), args.b.value(column, k), of_block);
        sum = fma(of_block, args.a.scale(row, block) * args.b.scale(column, block), sum);
    }
    T& to = args.c[row * args.c_stride + column];
    if (args.bias != nullptr) sum = sum + widen(args.bias[column]);
    if (args.accumulate) sum = sum + widen(to);
    to = narrow<T>(sum);
}

/// Of a, or of b transposed.
BlockOperand operand(const Matrix& matrix) {
    const ScaleGrid& grid = matrix.scales;
    GPTRAIN_CHECK(matrix.dtype == DType::f8e4m3 && matrix.col_stride == 1 && matrix.in_blocks() &&
                      grid.cols == fp8_block,
                  "an operand of multiply_plain_rows is not FP8 in blocks");
    return {.values = reinterpret_cast<const F8E4M3*>(matrix.data),
            .stride = matrix.row_stride,
            .scales = matrix.scale,
            .count_in_block = grid.rows,
            .step = grid.row_step,
            .k_step = grid.col_step};
}

template <class T>
void multiply(const Gemm& gemm, const Stream& stream) {
    const PlainRowsArgs<T> args = {.a = operand(gemm.a),
                                   .b = operand(gemm.b.transposed()),
                                   .rows = gemm.c.rows,
                                   .columns = gemm.c.cols,
                                   .length = gemm.a.cols,
                                   .c = reinterpret_cast<T*>(gemm.c.data),
                                   .c_stride = gemm.c.row_stride,
                                   .bias = reinterpret_cast<const T*>(gemm.bias),
                                   .accumulate = gemm.accumulate};
    launch(stream,
           {.blocks = div_ceil(args.columns, block_size),
            .threads = block_size,
            .blocks_y = div_ceil(args.rows - 1, compared_row_distance) + 1},
           plain_rows_kernel<T>, args);
}

}  // namespace

void multiply_plain_rows(const Gemm& gemm, const Stream& stream) {
    GPTRAIN_CHECK(gemm.c.dtype == DType::bf16 || gemm.c.dtype == DType::f32,
                  "multiply_plain_rows computes bf16 or fp32");
    gemm.c.dtype == DType::f32 ? multiply<float>(gemm, stream) : multiply<Bf16>(gemm, stream);
}

}  // namespace gptrain::cuda
