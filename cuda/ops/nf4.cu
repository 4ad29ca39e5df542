#include "cuda/ops/nf4.h"

#include <algorithm>

#include "cuda/ops/few_rows.cuh"

namespace gptrain::cuda {
namespace {

static_assert(nf4_block % group == 0);

/// A table that a thread can read at any place.
struct Nf4Table {
    float values[std::size(nf4_values)];
};

/// All threads of the block call it once.
__device__ inline const Nf4Table& block_table() {
    auto& table = shared_memory<Nf4Table>();
    constexpr std::array<float, std::size(nf4_values)> values = nf4_values;
    if (thread_index() == 0) {
        for (std::size_t i = 0; i < std::size(values); ++i)
            table.values[i] = values[i];
    }
    block_barrier();
    return table;
}

/// Codes of adjacent elements, and their blocks' scales.
struct Nf4Codes {
    const std::uint8_t* codes;
    Nf4Scales scales;

    explicit Nf4Codes(const Nf4Matrix& matrix)
        : codes(matrix.codes.as<std::uint8_t>()), scales(matrix.scales_of_blocks()) {}
};

/// The group from element `at` on.
__device__ inline WeightGroup load_group(const Nf4Codes& from, const Nf4Table& table,
                                         std::int64_t at) {
    const auto word = load(reinterpret_cast<const std::uint32_t*>(from.codes + at / 2));
    WeightGroup result;
    result.scale = from.scales(at / nf4_block);
    for (int i = 0; i < group; ++i)
        result.values[i] = table.values[word >> (8 * (i / 2) + (i % 2 == 0 ? 4 : 0)) & 15];
    return result;
}

template <class T>
__device__ inline void widen_group(const Nf4Codes& from, const Nf4Table& table, std::int64_t at,
                                   T* out) {
    const WeightGroup values = load_group(from, table, at);
    constexpr int width = piece_width<T>;
    for (int first = 0; first < group; first += width) {
        float piece[width];
        for (int i = 0; i < width; ++i)
            piece[i] = values.values[first + i] * values.scale;
        store(reinterpret_cast<Vec16<T>*>(out + at + first), narrow_piece<T>(piece));
    }
}

template <class T>
__global__ void __launch_bounds__(block_size)
    from_nf4_kernel(Nf4Codes from, std::int64_t groups, T* out) {
    const Nf4Table& table = block_table();
    const std::int64_t index = std::int64_t{block_index().x} * block_size + thread_index();
    if (index < groups) widen_group(from, table, index * group, out);
}

/// Blocks for a matrix of an expert. Few experts have rows where there are few tokens; those are
/// enough to fill a GPU, and the blocks of the others end at once.
constexpr std::int64_t matrix_blocks = 64;

template <class T>
__global__ void __launch_bounds__(block_size)
    grouped_from_nf4_kernel(Nf4Codes from, const std::int32_t* offsets, std::int64_t groups,
                            T* out) {
    const auto expert = static_cast<int>(block_index().y);
    if (load(offsets + expert) == load(offsets + expert + 1)) return;
    const Nf4Table& table = block_table();
    const std::int64_t step = std::int64_t{grid_blocks().x} * block_size;
    for (std::int64_t index = std::int64_t{block_index().x} * block_size + thread_index();
         index < groups; index += step)
        widen_group(from, table, (expert * groups + index) * group, out);
}

template <bool aligned, class T>
__global__ void __launch_bounds__(block_size)
    nf4_linear_kernel(LinearRows<T> args, Nf4Codes weight) {
    const Nf4Table& table = block_table();
    multiply_rows<aligned>(args, [&](std::int64_t output, int at) {
        return load_group(weight, table, output * args.columns + at);
    });
}

void check(const Nf4Matrix& from, const Tensor& out) {
    GPTRAIN_CHECK(out.contiguous() && out.shape() == from.shape &&
                      reinterpret_cast<std::uintptr_t>(out.data()) % 16 == 0 &&
                      reinterpret_cast<std::uintptr_t>(from.codes.data()) % 4 == 0,
                  "NF4 matrix ", from.shape.to_text(), " to ", out.shape().to_text());
}

}  // namespace

void run(const FromNf4& args, const OpContext& context) {
    check(args.x, args.out);
    const std::int64_t groups = args.out.elements() / group;
    with_compute_type(args.out.dtype(), [&](auto type) {
        using T = decltype(type);
        launch(context.stream,
               {.blocks = div_ceil(groups, block_size),
                .threads = block_size,
                .shared_bytes = sizeof(Nf4Table)},
               from_nf4_kernel<T>, Nf4Codes(args.x), groups, args.out.as<T>());
    });
}

void run(const GroupedFromNf4& args, const OpContext& context) {
    check(args.x, args.out);
    const std::int64_t experts = args.out.size(0);
    const std::int64_t groups = args.x.part.blocks * (nf4_block / group);
    with_compute_type(args.out.dtype(), [&](auto type) {
        using T = decltype(type);
        launch(context.stream,
               {.blocks = std::min(div_ceil(groups, block_size), matrix_blocks),
                .threads = block_size,
                .shared_bytes = sizeof(Nf4Table),
                .blocks_y = experts},
               grouped_from_nf4_kernel<T>, Nf4Codes(args.x), args.offsets.as<std::int32_t>(),
               groups, args.out.as<T>());
    });
}

void run(const Nf4LinearForward& args, const OpContext& context) {
    GPTRAIN_CHECK(args.x.size(1) % nf4_block == 0, args.x.size(1), " inputs");
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const LinearRows<T> rows(args);
        const bool aligned = is_aligned(rows.x, rows.x_stride, rows.columns);
        launch(context.stream,
               {.blocks = div_ceil(rows.outputs, block_warps),
                .threads = block_size,
                .shared_bytes = sizeof(Nf4Table)},
               aligned ? nf4_linear_kernel<true, T> : nf4_linear_kernel<false, T>, rows,
               Nf4Codes(args.weight));
    });
}

}  // namespace gptrain::cuda
