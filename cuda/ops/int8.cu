#include "cuda/ops/int8.h"

#include <algorithm>
#include <limits>

#include "cuda/ops/few_rows.cuh"

namespace gptrain::cuda {
namespace {

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

__device__ inline WeightGroup load_group(const Int8Rows& from, std::int64_t row, std::int64_t at) {
    WeightGroup result = {};
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
    const WeightGroup values = load_group(from, row, at);
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

template <bool aligned, class T>
__global__ void __launch_bounds__(block_size)
    int8_linear_kernel(LinearRows<T> args, Int8Rows weight) {
    multiply_rows<aligned>(
        args, [&](std::int64_t output, int at) { return load_group(weight, output, at); });
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
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const LinearRows<T> rows(args);
        const Int8Rows weight(args.weight);
        const bool aligned = weight.aligned && is_aligned(rows.x, rows.x_stride, weight.columns);
        launch(context.stream,
               {.blocks = div_ceil(rows.outputs, block_warps), .threads = block_size},
               aligned ? int8_linear_kernel<true, T> : int8_linear_kernel<false, T>, rows, weight);
    });
}

}  // namespace gptrain::cuda
