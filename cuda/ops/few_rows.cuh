// Linear layers over few rows, whose weight is kept in fewer bits: a warp computes one output of
// all rows, so that the weight is read once. Activations are read in pieces of 16 bytes: single
// elements, 8 of them apart, would fill the cache's bandwidth before the weights fill that of
// memory.
#pragma once

#include "backend/ops.h"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;
/// Adjacent elements of a row that a thread handles at a time; they share a scale.
constexpr int group = 8;

/// Elements of a weight; each is its value times the scale.
struct WeightGroup {
    float values[group];  ///< 0 past the end of the row
    float scale;
};

template <class T>
struct LinearRows {
    const T* x;
    std::int64_t x_stride;
    const T* bias;  ///< may be null
    T* y;
    std::int64_t y_stride;
    int rows;  ///< at most few_rows
    int columns;
    std::int64_t outputs;

    /// Of Int8LinearForward or Nf4LinearForward.
    explicit LinearRows(const auto& op)
        : x(op.x.template as<T>()),
          x_stride(op.x.stride(0)),
          bias(pointer_or_null<T>(op.bias)),
          y(op.y.template as<T>()),
          y_stride(op.y.stride(0)),
          rows(static_cast<int>(op.x.size(0))),
          columns(static_cast<int>(op.x.size(1))),
          outputs(op.y.size(1)) {
        GPTRAIN_CHECK(op.x.size(0) <= few_rows, op.x.size(0), " rows");
    }
};

/// A group of a row of activations, zeros past the end of the row. `aligned`: the row consists of
/// whole groups, aligned to 16 bytes.
template <bool aligned, class T>
__device__ inline void load_activations(const T* row, int at, int columns, float (&x)[group]) {
    constexpr int width = piece_width<T>;
    for (int first = 0; first < group; first += width) {
        float piece[width];
        widen(load_piece<aligned>(row, at + first, columns), piece);
        for (int i = 0; i < width; ++i)
            x[first + i] = piece[i];
    }
}

/// The output of this warp. `weights(output, at)`: the group of that row of the weight.
template <bool aligned, class T>
__device__ inline void multiply_rows(const LinearRows<T>& args, const auto& weights) {
    const std::int64_t output = std::int64_t{block_index().x} * block_warps + warp_index();
    if (output >= args.outputs) return;
    float sums[few_rows] = {};
    for (int at = lane_index() * group; at < args.columns; at += warp_threads * group) {
        const WeightGroup loaded = weights(output, at);
        for (int row = 0; row < static_cast<int>(few_rows); ++row) {
            if (row >= args.rows) continue;
            float x[group];
            load_activations<aligned>(args.x + row * args.x_stride, at, args.columns, x);
            float sum = 0;
            for (int i = 0; i < group; ++i)
                sum = fma(x[i], loaded.values[i], sum);
            sums[row] = fma(loaded.scale, sum, sums[row]);
        }
    }
    for (int row = 0; row < static_cast<int>(few_rows); ++row) {
        if (row >= args.rows) continue;
        float sum = warp_sum(sums[row]);
        if (args.bias != nullptr) sum = sum + widen(args.bias[output]);
        if (lane_index() == 0) args.y[row * args.y_stride + output] = narrow<T>(sum);
    }
}

}  // namespace gptrain::cuda
