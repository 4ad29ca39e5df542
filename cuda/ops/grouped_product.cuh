// The matrix products of grouped linear layers, and who computes which: tile by tile, found in the
// offsets of the experts, which only the device knows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/device.cuh"
#include "cuda/device/reduce.cuh"

namespace gptrain::cuda {

enum class Grouped { forward, input_grad, weight_grad, biased_forward };

constexpr bool is_forward(Grouped op) {
    return op == Grouped::forward || op == Grouped::biased_forward;
}

template <class T>
struct GroupedArgs {
    const T* a;     ///< x, or dy
    const T* b;     ///< weight, or x
    const T* bias;  ///< biased_forward only
    void* c;        ///< y, dx or dweight
    const std::int32_t* offsets;
    int experts;
    int parts;  ///< P
    int outputs;
    int inputs;
    bool accumulate;  ///< weight gradient only
};

/// A tile of c = a b, from its first element on. The sum has `parts` parts of k terms each. Rows
/// are contiguous and a stride apart; k runs along the rows of an operand or down its columns.
template <class T, Grouped op>
struct Product {
    using To = std::conditional_t<op == Grouped::weight_grad, float, T>;
    /// True if the elements of the operand that share m or n are contiguous.
    static constexpr bool a_by_k = op != Grouped::weight_grad;
    static constexpr bool b_by_k = is_forward(op);

    const T* a;
    const T* b;
    To* c;
    const T* bias;  ///< of the columns, biased_forward only
    std::int64_t a_stride;
    std::int64_t b_stride;
    std::int64_t c_stride;
    std::int64_t a_part;  ///< distance between the parts
    std::int64_t b_part;
    int m;  ///< rows and columns of c that exist; may exceed the tile
    int n;
    int k;
    int parts;

    __device__ const T* a_at(int part, int at) const {
        return a + part * a_part + (a_by_k ? at : at * a_stride);
    }
    __device__ const T* b_at(int part, int at) const {
        return b + part * b_part + (b_by_k ? at : at * b_stride);
    }
};

/// Some rows of one expert; expert -1: there is no such tile.
struct RowTile {
    int expert;
    int begin;  ///< among all rows
    int rows;   ///< from `begin` to the expert's last
};

/// Finds tile number `tile`, where each expert has as many tiles of `height` rows as it needs. The
/// whole warp calls it together; each lane counts the tiles of some adjacent experts.
template <int height>
__device__ inline RowTile find_row_tile(const std::int32_t* offsets, int experts,
                                        std::int64_t tile) {
    const auto tiles_of = [&](int e) {
        return (load(offsets + e + 1) - load(offsets + e) + height - 1) / height;
    };
    const int share = (experts + warp_threads - 1) / warp_threads;
    const int first = lane_index() * share;
    const int end = first + share < experts ? first + share : experts;
    int own = 0;
    for (int e = first; e < end; ++e)
        own += tiles_of(e);
    const int before = sum_of_lanes_before(own);
    const bool is_mine = tile >= before && tile < before + own;
    RowTile found = {-1, 0, 0};
    if (is_mine) {
        int e = first;
        auto rest = static_cast<int>(tile - before);
        for (int tiles = tiles_of(e); rest >= tiles; tiles = tiles_of(e)) {
            rest -= tiles;
            ++e;
        }
        const int begin = load(offsets + e) + rest * height;
        found = {e, begin, load(offsets + e + 1) - begin};
    }
    const std::uint32_t lanes = ballot(is_mine);
    if (lanes == 0) return found;
    const int lane = bits_set(lanes - 1);
    return {shuffle(found.expert, lane), shuffle(found.begin, lane), shuffle(found.rows, lane)};
}

/// Tiles that cover `size` rows or columns.
constexpr std::int64_t tiles_for(std::int64_t size, int tile) {
    return (size + tile - 1) / tile;
}

/// Product number `index`; false if there are fewer. The whole warp calls it together.
template <int tile, class T, Grouped op>
__device__ inline bool find_product(Product<T, op>& to, const GroupedArgs<T>& args,
                                    std::int64_t index) {
    using To = typename Product<T, op>::To;
    const std::int64_t inputs = args.inputs;
    const std::int64_t outputs = args.outputs;
    const std::int64_t row = args.parts * outputs;
    const std::int64_t matrix = outputs * inputs;
    auto* c = static_cast<To*>(args.c);
    if constexpr (op == Grouped::weight_grad) {
        const std::int64_t across = tiles_for(inputs, tile);
        const std::int64_t down = tiles_for(outputs, tile);
        const auto which = static_cast<int>(index / (across * down));
        if (which >= args.parts * args.experts) return false;
        const int part = which / args.experts;
        const int expert = which % args.experts;
        const std::int64_t in = index % across * tile;
        const std::int64_t out = index / across % down * tile;
        const std::int64_t begin = load(args.offsets + expert);
        to = {.a = args.a + begin * row + part * outputs + out,
              .b = args.b + begin * inputs + in,
              .c = c + which * matrix + out * inputs + in,
              .bias = nullptr,
              .a_stride = row,
              .b_stride = inputs,
              .c_stride = inputs,
              .a_part = 0,
              .b_part = 0,
              .m = static_cast<int>(outputs - out),
              .n = static_cast<int>(inputs - in),
              .k = static_cast<int>(load(args.offsets + expert + 1) - begin),
              .parts = 1};
        return true;
    }
    constexpr bool forward = is_forward(op);
    constexpr bool biased = op == Grouped::biased_forward;
    const std::int64_t across = tiles_for(forward ? outputs : inputs, tile);
    const std::int64_t strips = forward ? args.parts * across : across;
    const RowTile rows = find_row_tile<tile>(args.offsets, args.experts, index / strips);
    if (rows.expert < 0) return false;
    const std::int64_t begin = rows.begin;
    const std::int64_t column = index % across * tile;
    if constexpr (forward) {
        const auto part = static_cast<int>(index % strips / across);
        const std::int64_t which = std::int64_t{part} * args.experts + rows.expert;
        to = {.a = args.a + begin * inputs,
              .b = args.b + which * matrix + column * inputs,
              .c = c + begin * row + part * outputs + column,
              .bias = biased ? args.bias + which * outputs + column : nullptr,
              .a_stride = inputs,
              .b_stride = inputs,
              .c_stride = row,
              .a_part = 0,
              .b_part = 0,
              .m = rows.rows,
              .n = static_cast<int>(outputs - column),
              .k = args.inputs,
              .parts = 1};
    } else {
        to = {.a = args.a + begin * row,
              .b = args.b + rows.expert * matrix + column,
              .c = c + begin * inputs + column,
              .bias = nullptr,
              .a_stride = row,
              .b_stride = inputs,
              .c_stride = inputs,
              .a_part = outputs,
              .b_part = args.experts * matrix,
              .m = rows.rows,
              .n = static_cast<int>(inputs - column),
              .k = args.outputs,
              .parts = args.parts};
    }
    return true;
}

/// The product that a block computes, in its shared memory.
template <class Product>
struct SharedProduct {
    Product product;
    bool exists;
};

/// Finds the block's next product once all its threads are done with the one before.
template <int tile, class T, Grouped op>
__device__ inline bool next_product(SharedProduct<Product<T, op>>& next, const GroupedArgs<T>& args,
                                    std::int64_t index) {
    block_barrier();
    if (warp_index() == 0) {
        Product<T, op> product = {};
        const bool exists = find_product<tile>(product, args, index);
        if (lane_index() == 0) next = {product, exists};
    }
    block_barrier();
    return next.exists;
}

}  // namespace gptrain::cuda
