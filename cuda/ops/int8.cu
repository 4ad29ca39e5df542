#include "cuda/ops/int8.h"

#include <algorithm>
#include <limits>

#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;
/// Adjacent elements of a row that a thread handles at a time; they share a scale.
constexpr int group = 8;
constexpr int scale_block = static_cast<int>(Int8Matrix::block);
static_assert(scale_block % group == 0);

/// An Int8Matrix as kernels read it.
struct Int8Rows {
    const std::int8_t* values;
    const float* scales;
    std::int64_t columns;
    std::int64_t blocks;  ///< scales of a row
    bool aligned;         ///< rows are whole groups, aligned to their size

    explicit Int8Rows(const Int8Matrix& matrix)
        : values(matrix.values.as<std::int8_t>()),
          scales(matrix.scales.as<float>()),
          columns(matrix.values.size(1)),
          blocks(matrix.scales.size(1)),
          aligned(reinterpret_cast<std::uintptr_t>(values) % group == 0 && columns % group == 0) {}
};

struct Int8Group {
    float values[group];  ///< whole numbers; 0 past the end of the row
    float scale;
};

__device__ inline Int8Group load_group(const Int8Rows& from, std::int64_t row, std::int64_t at) {
    Int8Group result = {};
    result.scale = from.scales[row * from.blocks + at / scale_block];
    const std::int8_t* values = from.values + row * from.columns + at;
    if (from.aligned) {
        const auto words = load(reinterpret_cast<const Vec<std::uint32_t, 2>*>(values));
        for (int i = 0; i < group; ++i)
            result.values[i] = static_cast<std::int8_t>(words[i / 4] >> (8 * (i % 4)) & 0xff);
    } else {
        for (int i = 0; i < group; ++i)
            if (at + i < from.columns) result.values[i] = values[i];
    }
    return result;
}

// ---- conversion ---------------------------------------------------------------------------------

/// A warp converts one block of a row at a time.
template <class T>
__global__ void __launch_bounds__(block_size)
    to_int8_kernel(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                   std::int64_t blocks, std::int8_t* values, float* scales) {
    constexpr int per_lane = scale_block / warp_threads;
    const std::int64_t at = std::int64_t{block_index().x} * block_warps + warp_index();
    if (at >= rows * blocks) return;
    const std::int64_t row = at / blocks;
    const std::int64_t begin = at % blocks * scale_block;
    float elements[per_lane] = {};
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < per_lane; ++i) {
        const std::int64_t column = begin + i * warp_threads + lane_index();
        if (column < columns) elements[i] = widen(x[row * stride + column]);
        const float magnitude = absolute(elements[i]);
        finite = finite && magnitude <= std::numeric_limits<float>::max();
        amax = maximum(amax, magnitude);
    }
    amax = warp_maximum(amax);
    const bool all_finite = ballot(!finite) == 0;
    const bool stored = all_finite && amax >= int8_smallest_amax;
    const float factor = stored ? 127 / amax : 0;
    for (int i = 0; i < per_lane; ++i) {
        const std::int64_t column = begin + i * warp_threads + lane_index();
        if (column >= columns) continue;
        const int value = stored ? nearest_int(elements[i] * factor) : 0;
        values[row * columns + column] = static_cast<std::int8_t>(value);
    }
    if (lane_index() != 0) return;
    scales[at] = !all_finite ? std::numeric_limits<float>::quiet_NaN() : stored ? amax / 127 : 0;
}

template <class T>
__device__ inline void widen_group(const Int8Rows& from, std::int64_t row, std::int64_t at, T* to) {
    const Int8Group values = load_group(from, row, at);
    for (int i = 0; i < group; ++i)
        if (at + i < from.columns) to[at + i] = narrow<T>(values.values[i] * values.scale);
}

template <class T>
__global__ void __launch_bounds__(block_size)
    from_int8_kernel(Int8Rows from, std::int64_t rows, T* out, std::int64_t stride) {
    const std::int64_t groups = div_ceil(from.columns, group);
    const std::int64_t index = std::int64_t{block_index().x} * block_size + thread_index();
    if (index >= rows * groups) return;
    const std::int64_t row = index / groups;
    widen_group(from, row, index % groups * group, out + row * stride);
}

/// Blocks for a matrix of an expert. Few experts have rows where there are few tokens; those are
/// enough to fill a GPU, and the blocks of the others end at once.
constexpr std::int64_t matrix_blocks = 64;

template <class T>
__global__ void __launch_bounds__(block_size)
    grouped_from_int8_kernel(Int8Rows from, const std::int32_t* offsets, int experts,
                             std::int64_t outputs, T* out) {
    const auto which = static_cast<int>(block_index().y);
    const std::int32_t* rows = offsets + which % experts;
    if (load(rows) == load(rows + 1)) return;
    const std::int64_t groups = div_ceil(from.columns, group);
    const std::int64_t step = std::int64_t{grid_blocks().x} * block_size;
    for (std::int64_t index = std::int64_t{block_index().x} * block_size + thread_index();
         index < outputs * groups; index += step) {
        const std::int64_t row = which * outputs + index / groups;
        widen_group(from, row, index % groups * group, out + row * from.columns);
    }
}

// ---- linear layer -------------------------------------------------------------------------------

template <class T>
struct LinearRows {
    const T* x;
    std::int64_t x_stride;
    const T* bias;  ///< may be null
    T* y;
    std::int64_t y_stride;
    int rows;  ///< at most few_rows
    std::int64_t outputs;
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

/// A warp computes one output of all rows, so that the weight is read once. Activations are read in
/// pieces of 16 bytes: single elements, 8 of them apart, would fill the cache's bandwidth before
/// the weights fill that of memory.
template <bool aligned, class T>
__global__ void __launch_bounds__(block_size)
    int8_linear_kernel(LinearRows<T> args, Int8Rows weight) {
    const std::int64_t output = std::int64_t{block_index().x} * block_warps + warp_index();
    if (output >= args.outputs) return;
    const auto columns = static_cast<int>(weight.columns);
    float sums[few_rows] = {};
    for (int at = lane_index() * group; at < columns; at += warp_threads * group) {
        const Int8Group weights = load_group(weight, output, at);
        for (int row = 0; row < static_cast<int>(few_rows); ++row) {
            if (row >= args.rows) continue;
            float x[group];
            load_activations<aligned>(args.x + row * args.x_stride, at, columns, x);
            float sum = 0;
            for (int i = 0; i < group; ++i)
                sum = fma(x[i], weights.values[i], sum);
            sums[row] = fma(weights.scale, sum, sums[row]);
        }
    }
    for (int row = 0; row < static_cast<int>(few_rows); ++row) {
        if (row >= args.rows) continue;
        float sum = warp_sum(sums[row]);
        if (args.bias != nullptr) sum = sum + widen(args.bias[output]);
        if (lane_index() == 0) args.y[row * args.y_stride + output] = narrow<T>(sum);
    }
}

}  // namespace

void run(const ToInt8& args, const OpContext& context) {
    const std::int64_t blocks = args.out.scales.size(1);
    with_compute_type(args.x.dtype(), [&](auto type) {
        const Rows<decltype(type)> x(args.x);
        launch(context.stream,
               {.blocks = div_ceil(args.x.size(0) * blocks, block_warps), .threads = block_size},
               to_int8_kernel<decltype(type)>, x.data, x.stride, args.x.size(0), args.x.size(1),
               blocks, args.out.values.as<std::int8_t>(), args.out.scales.as<float>());
    });
}

void run(const FromInt8& args, const OpContext& context) {
    const std::int64_t groups = div_ceil(args.out.size(1), group);
    with_compute_type(args.out.dtype(), [&](auto type) {
        const Rows<decltype(type)> out(args.out);
        launch(context.stream,
               {.blocks = div_ceil(args.out.size(0) * groups, block_size), .threads = block_size},
               from_int8_kernel<decltype(type)>, Int8Rows(args.x), args.out.size(0), out.data,
               out.stride);
    });
}

void run(const GroupedFromInt8& args, const OpContext& context) {
    const Shape& shape = args.out.shape();
    GPTRAIN_CHECK(shape.rank() == 4 && args.x.values.shape() == shape &&
                      args.x.values.contiguous() && args.x.scales.contiguous() &&
                      args.out.contiguous() && args.offsets.elements() == shape[1] + 1,
                  "int8 matrices ", args.x.values.shape().to_text(), " to ", shape.to_text());
    const std::int64_t pieces = div_ceil(shape[2] * div_ceil(shape[3], group), block_size);
    with_compute_type(args.out.dtype(), [&](auto type) {
        using T = decltype(type);
        launch(context.stream,
               {.blocks = std::min(pieces, matrix_blocks),
                .threads = block_size,
                .blocks_y = shape[0] * shape[1]},
               grouped_from_int8_kernel<T>, Int8Rows(args.x.as_one()),
               args.offsets.as<std::int32_t>(), static_cast<int>(shape[1]), shape[2],
               args.out.as<T>());
    });
}

void run(const Int8LinearForward& args, const OpContext& context) {
    GPTRAIN_CHECK(args.x.size(0) <= few_rows, args.x.size(0), " rows");
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> x(args.x);
        const Rows<T> y(args.y);
        const Int8Rows weight(args.weight);
        const bool aligned = weight.aligned && is_aligned(x.data, x.stride, weight.columns);
        launch(context.stream,
               {.blocks = div_ceil(args.y.size(1), block_warps), .threads = block_size},
               aligned ? int8_linear_kernel<true, T> : int8_linear_kernel<false, T>,
               LinearRows<T>{.x = x.data,
                             .x_stride = x.stride,
                             .bias = pointer_or_null<T>(args.bias),
                             .y = y.data,
                             .y_stride = y.stride,
                             .rows = static_cast<int>(args.x.size(0)),
                             .outputs = args.y.size(1)},
               weight);
    });
}

}  // namespace gptrain::cuda
