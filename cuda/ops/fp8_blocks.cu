// FP8 with scales for blocks of 1 x 128 or 128 x 128 elements. A thread block has a tile of 128 x
// 128: one block of a weight, or a block of each of 128 rows.
#include "cuda/device/fp8_rows.cuh"
#include "cuda/ops/fp8.h"
#include "cuda/ops/fp8_tile.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

static_assert(tile == fp8_block);

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;

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
    static_assert(warp_threads % chunks_of_row == 0);
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
    static_assert(tile == block_warps * chunk && tile == warp_threads * 4);
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
    const std::int64_t blocks = div_exact(size, tile);
    GPTRAIN_CHECK(blocks <= 65535, "a matrix with ", size, " columns");
    return blocks;
}

}  // namespace

void run(const ToFp8Rows& args, const OpContext& context) {
    const std::int64_t rows = args.x.size(0);
    const std::int64_t cols = args.x.size(1);
    const Fp8Matrix& out = args.out;
    GPTRAIN_CHECK(aligned(args.x) && args.x.stride(0) * size_of(args.x.dtype()) % 16 == 0 &&
                      aligned(out.rowwise) && out.scale.shape() == fp8_row_scales(rows, cols),
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
