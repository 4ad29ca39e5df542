#include "cuda/ops/fp8.h"

#include "cuda/device/amax.cuh"
#include "cuda/device/partial_sums.h"
#include "cuda/ops/fp8_tile.cuh"
#include "cuda/ops/linear_bias.h"
#include "cuda/ops/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

// ---- amax --------------------------------------------------------------------------------------

/// Each thread reads four vectors of `width` elements per round.
template <class T, int width>
__global__ void __launch_bounds__(block_size)
    find_amax(const T* x, std::int64_t vectors, float* result) {
    using V = Vec<T, width>;
    constexpr int unroll = 4;
    const auto* from = reinterpret_cast<const V*>(x);
    float amax = 0;
    for (std::int64_t first = std::int64_t{block_index().x} * block_size * unroll + thread_index();
         first < vectors; first += std::int64_t{grid_blocks().x} * block_size * unroll) {
        V parts[unroll] = {};
        for (int i = 0; i < unroll; ++i) {
            const std::int64_t at = first + i * block_size;
            if (at < vectors) parts[i] = load(from + at);
        }
        for (const V& part : parts) {
            for (int i = 0; i < width; ++i)
                amax = maximum(amax, absolute(widen(part[i])));
        }
    }
    merge_amax(amax, shared_memory<WarpAmax>().values, result);
}

template <class T, int width>
void launch_find_amax(const T* x, std::int64_t count, float* result, const OpContext& context) {
    if (count == 0) return;
    launch(context.stream,
           {.blocks = grid_for(count, std::int64_t{block_size} * 4 * width, context.device),
            .threads = block_size,
            .shared_bytes = sizeof(WarpAmax)},
           find_amax<T, width>, x, count / width, result);
}

/// The same of rows `stride` apart, which blocks take in turn.
template <class T, int width>
__global__ void __launch_bounds__(block_size)
    find_amax_of_rows(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t vectors,
                      float* result) {
    float amax = 0;
    for (std::int64_t row = block_index().x; row < rows; row += grid_blocks().x) {
        const auto* from = reinterpret_cast<const Vec<T, width>*>(x + row * stride);
        for (std::int64_t at = thread_index(); at < vectors; at += block_size) {
            const Vec<T, width> part = load(from + at);
            for (int i = 0; i < width; ++i)
                amax = maximum(amax, absolute(widen(part[i])));
        }
    }
    merge_amax(amax, shared_memory<WarpAmax>().values, result);
}

template <class T>
void update_amax_of_rows(const UpdateAmax& op, const OpContext& context) {
    GPTRAIN_CHECK(op.x.rank() == 2 && op.x.stride(1) == 1, "args.amax of ", op.x.shape().to_text());
    constexpr int width = 16 / static_cast<int>(sizeof(T));
    const T* from = op.x.as<T>();
    const std::int64_t rows = op.x.size(0);
    const std::int64_t cols = op.x.size(1);
    const std::int64_t stride = op.x.stride(0);
    const bool aligned = reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && stride % width == 0 &&
                         cols % width == 0;
    launch(context.stream,
           {.blocks = grid_for(rows, 1, context.device),
            .threads = block_size,
            .shared_bytes = sizeof(WarpAmax)},
           aligned ? find_amax_of_rows<T, width> : find_amax_of_rows<T, 1>, from, rows, stride,
           aligned ? cols / width : cols, op.amax.as<float>());
}

// ---- conversion ---------------------------------------------------------------------------------

template <class T, class Fp8>
struct ConvertArgs {
    const T* x;
    std::int64_t stride;
    std::int64_t rows;
    std::int64_t cols;
    const float* amax;
    Fp8* by_rows;     ///< may be null
    Fp8* by_columns;  ///< may be null
    float* scale;
    float* sums;  ///< [tiles of rows][cols], only if summed
};

/// Returns largest / amax, the factor for x; the first block writes the scale.
template <class T, class Fp8>
__device__ inline float factor_of(const ConvertArgs<T, Fp8>& args) {
    const float found = load(args.amax);
    const bool given = found >= fp8_smallest_amax;
    if (block_index().x == 0 && block_index().y == 0 && thread_index() == 0) {
        *args.scale = given ? found / Fp8::largest : 1.0f;
    }
    return given ? Fp8::largest / found : 1.0f;
}

template <bool summed>
struct ConvertShared {
    ConvertTile converted;
};
template <>
struct ConvertShared<true> {
    ConvertTile converted;
    WarpColumns sums;
};

/// For sizes and strides that are multiples of 16.
template <class T, class Fp8, bool summed>
__global__ void __launch_bounds__(block_size) convert_tiles(ConvertArgs<T, Fp8> args) {
    ConvertShared<summed>& shared = shared_memory<ConvertShared<summed>>();
    const float factor = factor_of(args);
    const std::int64_t first_col = std::int64_t{block_index().y} * tile;
    const std::int64_t first_row = std::int64_t{block_index().x} * tile;
    ChunkSum<summed> sum;
    for (int i = thread_index(); i < tile * chunks_of_row; i += block_size) {
        const std::int64_t row = first_row + i / chunks_of_row;
        const int col_in_tile = i % chunks_of_row * chunk;
        const std::int64_t col = first_col + col_in_tile;
        if (row >= args.rows || col >= args.cols) continue;
        float x[chunk];
        load_chunk(args.x + row * args.stride + col, x);
        sum.add(x);
        const auto values = converted<Fp8>(x, factor);
        if (args.by_rows != nullptr) {
            store(reinterpret_cast<Vec<std::uint32_t, 4>*>(args.by_rows + row * args.cols + col),
                  values);
        }
        std::uint32_t* words =
            shared.converted.words + (i / chunks_of_row * tile_stride + col_in_tile) / 4;
        for (int word = 0; word < 4; ++word)
            words[word] = values[word];
    }
    if constexpr (summed) sum.store(shared.sums);
    if (!summed && args.by_columns == nullptr) return;
    block_barrier();
    if constexpr (summed) store_sums(args.sums, args.cols, shared.sums, first_col);
    if (args.by_columns != nullptr) {
        store_columns(args.by_columns, args.rows, args.cols, shared.converted, first_row,
                      first_col);
    }
}

/// For any size, one element at a time.
template <class T, class Fp8>
__global__ void __launch_bounds__(block_size) convert_elements(ConvertArgs<T, Fp8> args) {
    const float factor = factor_of(args);
    const std::int64_t count = args.rows * args.cols;
    for (std::int64_t i = std::int64_t{block_index().x} * block_size + thread_index(); i < count;
         i += std::int64_t{grid_blocks().x} * block_size) {
        const std::int64_t row = i / args.cols;
        const std::int64_t col = i % args.cols;
        const float x = widen(args.x[row * args.stride + col]) * factor;
        const Fp8 stored = {static_cast<std::uint8_t>(narrow2_fp8<Fp8>(x, 0) & 0xff)};
        if (args.by_rows != nullptr) args.by_rows[i] = stored;
        if (args.by_columns != nullptr) args.by_columns[col * args.rows + row] = stored;
    }
}

// ---- transposition ------------------------------------------------------------------------------

struct Byte {
    std::uint8_t bits;
};

/// A matrix [rows, cols] of bytes, and its transpose.
struct TransposeArgs {
    const Byte* from;
    Byte* to;
    std::int64_t rows;
    std::int64_t cols;
};

/// For sizes that are multiples of 16.
__global__ void __launch_bounds__(block_size) transpose_tiles(TransposeArgs args) {
    ConvertTile& shared = shared_memory<ConvertTile>();
    const std::int64_t first_col = std::int64_t{block_index().y} * tile;
    const std::int64_t first_row = std::int64_t{block_index().x} * tile;
    for (int i = thread_index(); i < tile * chunks_of_row; i += block_size) {
        const std::int64_t row = first_row + i / chunks_of_row;
        const int col_in_tile = i % chunks_of_row * chunk;
        const std::int64_t col = first_col + col_in_tile;
        if (row >= args.rows || col >= args.cols) continue;
        const auto values =
            load(reinterpret_cast<const Vec<std::uint32_t, 4>*>(args.from + row * args.cols + col));
        std::uint32_t* words = shared.words + (i / chunks_of_row * tile_stride + col_in_tile) / 4;
        for (int word = 0; word < 4; ++word)
            words[word] = values[word];
    }
    block_barrier();
    store_columns(args.to, args.rows, args.cols, shared, first_row, first_col);
}

/// For any size, one element at a time.
__global__ void __launch_bounds__(block_size) transpose_elements(TransposeArgs args) {
    const std::int64_t count = args.rows * args.cols;
    for (std::int64_t i = std::int64_t{block_index().x} * block_size + thread_index(); i < count;
         i += std::int64_t{grid_blocks().x} * block_size)
        args.to[i % args.cols * args.rows + i / args.cols] = args.from[i];
}

bool aligned(const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

template <class T, class Fp8>
bool aligned_to_sixteen(const ConvertArgs<T, Fp8>& args) {
    return args.rows % chunk == 0 && args.cols % chunk == 0 && args.stride % chunk == 0 &&
           aligned(args.x) && aligned(args.by_rows) && aligned(args.by_columns);
}

template <bool summed, class T, class Fp8>
void launch_tiles(const ConvertArgs<T, Fp8>& args, const OpContext& context) {
    launch(context.stream,
           {.blocks = div_ceil(args.rows, tile),
            .threads = block_size,
            .shared_bytes = sizeof(ConvertShared<summed>),
            .blocks_y = div_ceil(args.cols, tile)},
           convert_tiles<T, Fp8, summed>, args);
}

template <class T, class Fp8>
void convert_and_sum(ConvertArgs<T, Fp8> args, float* row_sum, const OpContext& context) {
    const std::int64_t parts = div_ceil(args.rows, tile);
    args.sums = context.scratch.take<float>(parts * args.cols);
    launch_tiles<true>(args, context);
    add_partial_sums(
        {.data = args.sums, .count = parts, .columns = args.cols, .totals = {row_sum, nullptr}},
        context.stream);
}

template <class T, class Fp8>
void convert(const ToFp8& call, const OpContext& context) {
    const bool flat = call.x.rank() == 1;
    const ConvertArgs<T, Fp8> args = {.x = call.x.as<T>(),
                                      .stride = flat ? call.x.size(0) : call.x.stride(0),
                                      .rows = flat ? 1 : call.x.size(0),
                                      .cols = call.x.size(-1),
                                      .amax = call.amax.as<float>(),
                                      .by_rows = pointer_or_null<Fp8>(call.out.rowwise),
                                      .by_columns = pointer_or_null<Fp8>(call.out.columnwise),
                                      .scale = call.out.scale.as<float>(),
                                      .sums = nullptr};
    const bool tiles = aligned_to_sixteen(args) && div_ceil(args.cols, tile) <= 65535;
    if (tiles && !call.row_sum.empty()) {
        convert_and_sum(args, call.row_sum.as<float>(), context);
    } else if (tiles) {
        launch_tiles<false>(args, context);
    } else {
        launch(context.stream,
               {.blocks = grid_for(args.rows * args.cols, block_size, context.device),
                .threads = block_size},
               convert_elements<T, Fp8>, args);
        if (!call.row_sum.empty()) run(BiasGrad{.dy = call.x, .dbias = call.row_sum}, context);
    }
}

}  // namespace

void run(const UpdateAmax& args, const OpContext& context) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        if (!args.x.contiguous()) return update_amax_of_rows<T>(args, context);
        constexpr int width = 16 / static_cast<int>(sizeof(T));
        const T* from = args.x.as<T>();
        auto* result = args.amax.as<float>();
        const bool aligned = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
        const std::int64_t whole = aligned ? args.x.elements() / width * width : 0;
        launch_find_amax<T, width>(from, whole, result, context);
        launch_find_amax<T, 1>(from + whole, args.x.elements() - whole, result, context);
    });
}

void run(const ToFp8& args, const OpContext& context) {
    const Tensor& out = args.out.rowwise.empty() ? args.out.columnwise : args.out.rowwise;
    GPTRAIN_CHECK(args.out.columnwise.empty() || args.x.rank() == 2, "the transpose of ",
                  args.x.shape().to_text());
    if (!args.row_sum.empty()) check_bias(args.x, args.row_sum);
    with_compute_type(args.x.dtype(), [&](auto type) {
        with_fp8_type(out.dtype(),
                      [&](auto fp8) { convert<decltype(type), decltype(fp8)>(args, context); });
    });
}

void run(const TransposeFp8& args, const OpContext& context) {
    const Tensor& from = args.rowwise;
    const TransposeArgs kernel = {.from = reinterpret_cast<const Byte*>(from.data()),
                                  .to = reinterpret_cast<Byte*>(args.columnwise.data()),
                                  .rows = from.size(0),
                                  .cols = from.size(1)};
    GPTRAIN_CHECK(from.contiguous() && args.columnwise.dtype() == from.dtype() &&
                      args.columnwise.shape() == Shape({kernel.cols, kernel.rows}),
                  "args.rowwise of ", from.shape().to_text());
    const std::int64_t tiles_of_columns = div_ceil(kernel.cols, tile);
    if (kernel.rows % chunk == 0 && kernel.cols % chunk == 0 && aligned(kernel.from) &&
        aligned(kernel.to) && tiles_of_columns <= 65535) {
        launch(context.stream,
               {.blocks = div_ceil(kernel.rows, tile),
                .threads = block_size,
                .shared_bytes = sizeof(ConvertTile),
                .blocks_y = tiles_of_columns},
               transpose_tiles, kernel);
    } else {
        launch(context.stream,
               {.blocks = grid_for(kernel.rows * kernel.cols, block_size, context.device),
                .threads = block_size},
               transpose_elements, kernel);
    }
}

}  // namespace gptrain::cuda
