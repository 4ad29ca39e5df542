// FP8 with scales for blocks of 1 x 128 or 128 x 128 elements. A thread block has a tile of 128 x
// 128: one block of a weight, or a block of each of 128 rows or columns.
#include "cuda/device/fp8_rows.cuh"
#include "cuda/device/partial_sums.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/fp8_tile.cuh"
#include "cuda/ops/linear_bias.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

static_assert(tile == fp8_block);

/// The largest absolute value of a thread's elements.
__device__ inline float largest_of(const float (&x)[chunk]) {
    float amax = 0;
    for (int i = 0; i < chunk; ++i)
        amax = maximum(amax, absolute(x[i]));
    return amax;
}

template <class T>
struct RowArgs {
    const T* x;
    std::int64_t stride;
    std::int64_t rows;
    std::int64_t cols;
    F8E4M3* stored;
    float* scales;  ///< [cols / 128][rows]
};

/// Eight lanes have a block of a row.
template <class T>
__global__ void __launch_bounds__(block_size) convert_rows(RowArgs<T> args) {
    const std::int64_t first_col = std::int64_t{block_index().y} * tile;
    const std::int64_t first_row = std::int64_t{block_index().x} * tile;
    for (int i = thread_index(); i < tile * chunks_of_row; i += block_size) {
        const std::int64_t row = first_row + i / chunks_of_row;
        const std::int64_t col = first_col + i % chunks_of_row * chunk;
        const bool inside = row < args.rows;
        float x[chunk] = {};
        if (inside) load_chunk(args.x + row * args.stride + col, x);
        float amax = largest_of(x);
        for (int mask = chunks_of_row / 2; mask > 0; mask /= 2)
            amax = maximum(amax, shuffle_xor(amax, mask));
        if (!inside) continue;
        const BlockScale block = block_scale(amax);
        store(reinterpret_cast<Vec<std::uint32_t, 4>*>(args.stored + row * args.cols + col),
              converted<F8E4M3>(x, block.factor));
        if (i % chunks_of_row == 0)
            args.scales[std::int64_t{block_index().y} * args.rows + row] = block.scale;
    }
}

template <class T>
struct ColumnArgs {
    const T* x;
    std::int64_t stride;
    std::int64_t rows;
    std::int64_t cols;
    F8E4M3* stored;  ///< [cols, rows]
    float* scales;   ///< [tiles of rows][cols]
    float* sums;     ///< [tiles of rows][cols], only if summed
};

template <bool summed>
struct ColumnShared {
    ConvertTile converted;
    WarpColumns amaxes;
    /// Padded, so that the lanes of different chunks read from different banks.
    alignas(16) float factors[chunks_of_row][chunk + 4];
};
template <>
struct ColumnShared<true> : ColumnShared<false> {
    WarpColumns sums;
};

/// A thread's part of a tile: `count` chunks below each other. They wait in registers for the
/// scales: 32 of them in 16 bits.
template <class T>
class ColumnChunks {
public:
    static constexpr int count = tile * chunks_of_row / block_size;

    /// Chunks outside the matrix are 0.
    __device__ explicit ColumnChunks(const ColumnArgs<T>& args) {
        const std::int64_t col = std::int64_t{block_index().y} * tile + column();
        for (int i = 0; i < count; ++i) {
            const std::int64_t at = std::int64_t{block_index().x} * tile + row(i);
            const auto* from = reinterpret_cast<const Vec16<T>*>(args.x + at * args.stride + col);
            const bool inside = at < args.rows && col < args.cols;
            for (int j = 0; j < parts; ++j) {
                x_[i][j] = {};
                if (inside) x_[i][j] = load(from + j);
            }
        }
    }
    __device__ void get(int i, float (&values)[chunk]) const {
        for (int j = 0; j < chunk; ++j)
            values[j] = widen(x_[i][j / width][j % width]);
    }
    __device__ static int row(int i) { return (thread_index() + i * block_size) / chunks_of_row; }
    __device__ static int column() { return thread_index() % chunks_of_row * chunk; }

private:
    static constexpr int width = 16 / static_cast<int>(sizeof(T));
    static constexpr int parts = chunk / width;
    Vec16<T> x_[count][parts];
};

/// Writes the scales of the tile's columns and returns their factors to all threads.
template <class T>
__device__ inline void find_factors(const ColumnArgs<T>& args, ColumnShared<false>& shared,
                                    float (&factors)[chunk]) {
    const int col = thread_index();
    if (col < tile) {
        const BlockScale block = block_scale(column_maximum(shared.amaxes.of, col));
        shared.factors[col / chunk][col % chunk] = block.factor;
        const std::int64_t of_all = std::int64_t{block_index().y} * tile + col;
        if (of_all < args.cols)
            args.scales[std::int64_t{block_index().x} * args.cols + of_all] = block.scale;
    }
    block_barrier();
    const float* from = shared.factors[ColumnChunks<T>::column() / chunk];
    for (int i = 0; i < chunk / 4; ++i) {
        const auto four = load(reinterpret_cast<const Vec<float, 4>*>(from) + i);
        for (int j = 0; j < 4; ++j)
            factors[4 * i + j] = four[j];
    }
}

template <class T, bool summed>
__global__ void __launch_bounds__(block_size) convert_columns(ColumnArgs<T> args) {
    auto& shared = shared_memory<ColumnShared<summed>>();
    const std::int64_t first_row = std::int64_t{block_index().x} * tile;
    const std::int64_t first_col = std::int64_t{block_index().y} * tile;
    const ColumnChunks<T> chunks(args);
    float x[chunk];
    float amaxes[chunk] = {};
    ChunkSum<summed> sum;
    for (int i = 0; i < chunks.count; ++i) {
        chunks.get(i, x);
        sum.add(x);
        for (int j = 0; j < chunk; ++j)
            amaxes[j] = maximum(amaxes[j], absolute(x[j]));
    }
    store_of_warp(
        amaxes, [](float a, float b) { return maximum(a, b); }, shared.amaxes);
    if constexpr (summed) sum.store(shared.sums);
    block_barrier();
    if constexpr (summed) store_sums(args.sums, args.cols, shared.sums, first_col);
    float factors[chunk];
    find_factors(args, shared, factors);
    for (int i = 0; i < chunks.count; ++i) {
        chunks.get(i, x);
        std::uint32_t* words =
            shared.converted.words + (chunks.row(i) * tile_stride + chunks.column()) / 4;
        const auto values = converted<F8E4M3>(x, [&](int j) { return factors[j]; });
        for (int word = 0; word < 4; ++word)
            words[word] = values[word];
    }
    block_barrier();
    store_columns(args.stored, args.rows, args.cols, shared.converted, first_row, first_col);
}

/// The scales by rows or by columns: [blocks][step], padded with zeros to whole rows.
struct ScaleRows {
    float* data;
    std::int64_t step;
    std::int64_t blocks_of_row;

    /// The last scale of a row also writes its padding.
    __device__ void store(std::int64_t row, std::int64_t at, float scale) const {
        data[row * step + at] = scale;
        if (at + 1 < blocks_of_row) return;
        for (std::int64_t i = blocks_of_row; i < step; ++i)
            data[row * step + i] = 0;
    }
};

template <class T>
struct WeightArgs {
    const T* x;
    std::int64_t rows;
    std::int64_t cols;
    F8E4M3* by_rows;
    F8E4M3* by_columns;
    ScaleRows scales;
    ScaleRows column_scales;
};

struct WeightShared {
    ConvertTile converted;
    float amaxes[block_warps];
};

template <class T>
__global__ void __launch_bounds__(block_size) convert_weight(WeightArgs<T> args) {
    WeightShared& shared = shared_memory<WeightShared>();
    const std::int64_t first_col = std::int64_t{block_index().y} * tile;
    const std::int64_t first_row = std::int64_t{block_index().x} * tile;
    const auto position = [&](int i) {
        return (first_row + i / chunks_of_row) * args.cols + first_col + i % chunks_of_row * chunk;
    };
    float found = 0;
    for (int i = thread_index(); i < tile * chunks_of_row; i += block_size) {
        float x[chunk];
        load_chunk(args.x + position(i), x);
        found = maximum(found, largest_of(x));
    }
    const BlockScale block = block_scale(block_maximum(found, shared.amaxes));
    for (int i = thread_index(); i < tile * chunks_of_row; i += block_size) {
        float x[chunk];
        load_chunk(args.x + position(i), x);
        const auto values = converted<F8E4M3>(x, block.factor);
        store(reinterpret_cast<Vec<std::uint32_t, 4>*>(args.by_rows + position(i)), values);
        std::uint32_t* words = shared.converted.words +
                               (i / chunks_of_row * tile_stride + i % chunks_of_row * chunk) / 4;
        for (int word = 0; word < 4; ++word)
            words[word] = values[word];
    }
    block_barrier();
    store_columns(args.by_columns, args.rows, args.cols, shared.converted, first_row, first_col);
    if (thread_index() != 0) return;
    args.scales.store(block_index().x, block_index().y, block.scale);
    args.column_scales.store(block_index().y, block_index().x, block.scale);
}

bool aligned(const Tensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.data()) % 16 == 0;
}

/// Blocks of a dim.
std::int64_t blocks_of(std::int64_t size) {
    const std::int64_t blocks = div_ceil(size, tile);
    GPTRAIN_CHECK(blocks <= 65535, "a matrix with ", size, " columns");
    return blocks;
}

template <class T, bool summed>
void launch_columns(const ColumnArgs<T>& args, const OpContext& context) {
    launch(context.stream,
           {.blocks = div_ceil(args.rows, tile),
            .threads = block_size,
            .shared_bytes = sizeof(ColumnShared<summed>),
            .blocks_y = blocks_of(args.cols)},
           convert_columns<T, summed>, args);
}

}  // namespace

void run(const ToFp8Rows& args, const OpContext& context) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    const Fp8Matrix& out = args.out;
    GPTRAIN_CHECK(aligned(args.x) && args.x.stride(0) * size_of(args.x.dtype()) % 16 == 0 &&
                      cols % tile == 0 && aligned(out.rowwise) &&
                      out.scale.shape() == fp8_row_scales(rows, cols),
                  "args.x of ", args.x.shape().to_text(), ", scales of ",
                  out.scale.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        launch(context.stream,
               {.blocks = div_ceil(rows, tile), .threads = block_size, .blocks_y = blocks_of(cols)},
               convert_rows<T>,
               RowArgs<T>{.x = args.x.as<T>(),
                          .stride = args.x.stride(0),
                          .rows = rows,
                          .cols = cols,
                          .stored = out.rowwise.as<F8E4M3>(),
                          .scales = out.scale.as<float>()});
    });
}

void run(const ToFp8Columns& args, const OpContext& context) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    const Fp8Matrix& out = args.out;
    GPTRAIN_CHECK(aligned(args.x) && args.x.stride(0) * size_of(args.x.dtype()) % 16 == 0 &&
                      rows % chunk == 0 && cols % chunk == 0 && aligned(out.columnwise) &&
                      out.columnwise.shape() == Shape({cols, rows}) &&
                      out.column_scale.shape() == fp8_row_scales(cols, rows),
                  "args.x of ", args.x.shape().to_text(), ", scales of ",
                  out.column_scale.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        ColumnArgs<T> kernel = {.x = args.x.as<T>(),
                                .stride = args.x.stride(0),
                                .rows = rows,
                                .cols = cols,
                                .stored = out.columnwise.as<F8E4M3>(),
                                .scales = out.column_scale.as<float>(),
                                .sums = nullptr};
        if (args.row_sum.empty()) return launch_columns<T, false>(kernel, context);
        check_bias(args.x, args.row_sum);
        const std::int64_t parts = div_ceil(rows, tile);
        kernel.sums = context.scratch.take<float>(parts * cols);
        launch_columns<T, true>(kernel, context);
        add_partial_sums({.data = kernel.sums,
                          .count = parts,
                          .columns = cols,
                          .totals = {args.row_sum.as<float>(), nullptr}},
                         context.stream);
    });
}

void run(const ToFp8Blocks& args, const OpContext& context) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    const Fp8Matrix& out = args.out;
    GPTRAIN_CHECK(
        args.x.contiguous() && aligned(args.x) && aligned(out.rowwise) && aligned(out.columnwise) &&
            out.scale.shape() == fp8_block_scales(rows, cols) &&
            out.column_scale.shape() == fp8_block_scales(cols, rows),
        "args.x of ", args.x.shape().to_text(), ", scales of ", out.scale.shape().to_text());
    const auto scales = [](const Tensor& scale, std::int64_t size) {
        return ScaleRows{.data = scale.as<float>(),
                         .step = scale.size(1),
                         .blocks_of_row = div_exact(size, tile)};
    };
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        launch(context.stream,
               {.blocks = div_exact(rows, tile),
                .threads = block_size,
                .shared_bytes = sizeof(WeightShared),
                .blocks_y = blocks_of(cols)},
               convert_weight<T>,
               WeightArgs<T>{.x = args.x.as<T>(),
                             .rows = rows,
                             .cols = cols,
                             .by_rows = out.rowwise.as<F8E4M3>(),
                             .by_columns = out.columnwise.as<F8E4M3>(),
                             .scales = scales(out.scale, cols),
                             .column_scales = scales(out.column_scale, rows)});
    });
}

}  // namespace gptrain::cuda
