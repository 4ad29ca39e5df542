// A tile of a product of 16-bit matrices on tensor cores.
#pragma once

#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/ops/grouped_product.cuh"

namespace gptrain::cuda {

/// Rows and columns of a tile of c.
constexpr int mma_tile = 128;
/// Terms of the sum that a stage holds.
constexpr int mma_depth = 32;
constexpr int mma_stages = 3;
constexpr int mma_threads = 256;

/// 16-bit elements in shared memory. The 16-byte pieces of a row are permuted by the row, so that
/// eight rows of one column use all banks.
template <int tile_rows, int tile_columns>
struct alignas(128) PermutedTile {
    static constexpr int rows = tile_rows;
    static constexpr int columns = tile_columns;
    static constexpr int row_bytes = columns * 2;
    static_assert(row_bytes == 64 || row_bytes % 128 == 0);

    std::byte bytes[rows * row_bytes];

    __device__ std::byte* at(int row, int column) {
        // Two rows of 64 bytes use the banks once.
        const int shift = row_bytes == 64 ? row / 2 % 4 : row % 8;
        return bytes + row * row_bytes + ((column / 8) ^ shift) * 16 + column % 8 * 2;
    }
};

/// A part of an operand: either rows m or n, or the other way round.
template <bool by_k>
using OperandTile =
    std::conditional_t<by_k, PermutedTile<mma_tile, mma_depth>, PermutedTile<mma_depth, mma_tile>>;

template <class Product>
struct MmaShared {
    struct Stage {
        OperandTile<Product::a_by_k> a;
        OperandTile<Product::b_by_k> b;
    };
    union {
        Stage stages[mma_stages];
        PermutedTile<mma_tile, mma_tile> result;
    };
    SharedProduct<Product> next;
};

/// A thread's copies of an operand: a 16-byte piece of every few rows of a tile.
template <bool by_k, class T>
class OperandCopy {
public:
    /// Begins at k = 0.
    __device__ void begin(const T* from, std::int64_t stride) {
        place_ = from + row() * stride + column();
    }
    /// Starts to copy the next tile; rows and columns that do not exist become 0. `size`: m or n;
    /// `k`: terms that are left.
    template <bool aligned>
    __device__ void copy(OperandTile<by_k>& tile, std::int64_t stride, int size, int k) {
        const int rows = by_k ? size : k;
        const int columns = by_k ? k : size;
        std::byte* to = tile.at(row(), column());
        for (int i = 0; i < Tile::rows / step; ++i) {
            const T* place = place_ + i * step * stride;
            const bool valid = row() + i * step < rows && column() < columns;
            std::byte* to_piece = to + i * step * Tile::row_bytes;
            if constexpr (aligned) {
                copy_async_16(to_piece, place, valid);
            } else {
                Vec16<T> values = {};
                if (valid) values = load_piece<false>(place - column(), column(), columns);
                store(reinterpret_cast<Vec16<T>*>(to_piece), values);
            }
        }
        place_ += by_k ? mma_depth : mma_depth * stride;
    }

private:
    using Tile = OperandTile<by_k>;
    static constexpr int row_pieces = Tile::columns / 8;
    static constexpr int step = mma_threads / row_pieces;
    static_assert(step % 8 == 0);  // the pieces of all these rows are permuted alike

    __device__ static int row() { return thread_index() / row_pieces; }
    __device__ static int column() { return thread_index() % row_pieces * 8; }

    const T* place_ = nullptr;
};

/// The sums of a warp: 64 rows by 32 columns. Eight warps share a tile.
constexpr int warp_rows = 64;
constexpr int warp_columns = 32;
using WarpSums = float[warp_rows / 16][warp_columns / 8][4];

__device__ inline int first_row() {
    return warp_index() / (mma_tile / warp_columns) * warp_rows;
}
__device__ inline int first_column() {
    return warp_index() % (mma_tile / warp_columns) * warp_columns;
}

// Permuting is an exclusive or with bits of the row. So the address of another row of tiles is a
// sum where rows are m or n, and an exclusive or where they are k; for another k it is the reverse.

/// This lane's offset in the tile of a: its address for load_tiles of the warp's first 16 rows and
/// the first 16 terms.
template <bool by_k>
__device__ inline int left_offset(OperandTile<by_k>& tile) {
    const int lane = lane_index();
    const int at = first_row();
    const std::byte* place = by_k ? tile.at(at + lane % 16, lane / 16 * 8)
                                  : tile.at(lane % 8 + lane / 16 * 8, at + lane / 8 % 2 * 8);
    return static_cast<int>(place - tile.bytes);
}
/// The same for b and the warp's first 16 columns.
template <bool by_k>
__device__ inline int right_offset(OperandTile<by_k>& tile) {
    const int lane = lane_index();
    const int at = first_column();
    const std::byte* place =
        by_k ? tile.at(at + lane % 16, lane / 16 * 8) : tile.at(lane % 16, at + lane / 16 * 8);
    return static_cast<int>(place - tile.bytes);
}

/// Loads 16 rows or columns from `at` on, 16 terms from k on.
template <bool by_k>
__device__ inline void load_operand(std::uint32_t (&to)[4], const OperandTile<by_k>& tile,
                                    int offset, int at, int k) {
    using Tile = OperandTile<by_k>;
    if constexpr (by_k) {
        load_tiles(to, tile.bytes + (offset ^ (k * 2)) + at * Tile::row_bytes);
    } else {
        load_tiles_transposed(to, tile.bytes + (offset ^ (at * 2)) + k * Tile::row_bytes);
    }
}

template <class T, class Product>
__device__ inline void add_stage(WarpSums& sums, const typename MmaShared<Product>::Stage& stage,
                                 int of_left, int of_right) {
    // Two operands b lie in registers 0, 2 and 1, 3, or transposed in 0, 1 and 2, 3.
    constexpr int second = Product::b_by_k ? 2 : 1;
    for (int k = 0; k < mma_depth; k += 16) {
        std::uint32_t left[warp_rows / 16][4];
        for (int r = 0; r < warp_rows / 16; ++r)
            load_operand<Product::a_by_k>(left[r], stage.a, of_left, 16 * r, k);
        for (int j = 0; j < warp_columns / 8; j += 2) {
            std::uint32_t right[4];
            load_operand<Product::b_by_k>(right, stage.b, of_right, 8 * j, k);
            for (int r = 0; r < warp_rows / 16; ++r) {
                multiply_add<T>(sums[r][j], left[r], {right[0], right[second]});
                multiply_add<T>(sums[r][j + 1], left[r], {right[3 - second], right[3]});
            }
        }
    }
}

__device__ inline int next_stage(int stage) {
    return stage + 1 < mma_stages ? stage + 1 : 0;
}

/// sums = the product. Two stages are in flight while one is multiplied.
template <class T, bool aligned, class Product>
__device__ inline void multiply(WarpSums& sums, MmaShared<Product>& shared,
                                const Product& product) {
    OperandCopy<Product::a_by_k, T> a;
    OperandCopy<Product::b_by_k, T> b;
    const int all = product.k > 0 ? product.parts : 0;
    int part = 0;
    int left = 0;  // terms of the part
    int filled = 0;
    const auto start = [&] {
        if (part < all) {
            if (left <= 0) {
                left = product.k;
                a.begin(product.a + part * product.a_part, product.a_stride);
                b.begin(product.b + part * product.b_part, product.b_stride);
            }
            auto& stage = shared.stages[filled];
            a.template copy<aligned>(stage.a, product.a_stride, product.m, left);
            b.template copy<aligned>(stage.b, product.b_stride, product.n, left);
            left -= mma_depth;
            if (left <= 0) ++part;
        }
        filled = next_stage(filled);
        copy_async_commit();
    };
    const int of_left = left_offset<Product::a_by_k>(shared.stages[0].a);
    const int of_right = right_offset<Product::b_by_k>(shared.stages[0].b);
    for (int i = 0; i < mma_stages - 1; ++i)
        start();
    int stage = 0;
    for (int rest = all * ((product.k + mma_depth - 1) / mma_depth); rest > 0; --rest) {
        copy_async_wait<mma_stages - 2>();
        block_barrier();
        start();
        add_stage<T, Product>(sums, shared.stages[stage], of_left, of_right);
        stage = next_stage(stage);
    }
    copy_async_wait<0>();
}

/// Sets the sums of each column to its bias.
template <class T, class Product>
__device__ inline void start_with_bias(WarpSums& sums, const Product& product) {
    const int column = first_column() + lane_index() % 4 * 2;
    for (int j = 0; j < warp_columns / 8; ++j) {
        for (int i = 0; i < 2; ++i) {
            const int at = column + 8 * j + i;
            const float bias = at < product.n ? widen(load(product.bias + at)) : 0.0f;
            for (auto& of_rows : sums)
                of_rows[j][i] = of_rows[j][2 + i] = bias;
        }
    }
}

/// Writes the sums, rounded to T, through shared memory.
template <class T, bool aligned, class Product>
__device__ inline void store_rounded(const WarpSums& sums, MmaShared<Product>& shared,
                                     const Product& product) {
    auto& result = shared.result;
    const int row = first_row() + lane_index() / 4;
    const int column = first_column() + lane_index() % 4 * 2;
    block_barrier();
    unrolled<warp_rows / 8>([&](int i) {
        const int r = i / 2;
        const int h = i % 2;
        for (int j = 0; j < warp_columns / 8; ++j) {
            store(reinterpret_cast<std::uint32_t*>(result.at(row + 8 * i, column + 8 * j)),
                  narrow2<T>(sums[r][j][2 * h], sums[r][j][2 * h + 1]));
        }
    });
    block_barrier();
    constexpr int row_pieces = mma_tile / 8;
    for (int piece = thread_index(); piece < mma_tile * row_pieces; piece += mma_threads) {
        const int to_row = piece / row_pieces;
        const int to_column = piece % row_pieces * 8;
        if (to_row >= product.m || to_column >= product.n) continue;
        store_piece<aligned>(product.c + to_row * product.c_stride, to_column, product.n,
                             load(reinterpret_cast<const Vec16<T>*>(result.at(to_row, to_column))));
    }
}

/// Writes or adds the sums in fp32.
template <bool aligned, class Product>
__device__ inline void store_sums(const WarpSums& sums, const Product& product, bool accumulate) {
    const int first = first_row() + lane_index() / 4;
    const int column = first_column() + lane_index() % 4 * 2;
    unrolled<warp_rows / 8>([&](int i) {
        const int row = first + 8 * i;
        if (row >= product.m) return;
        float* to = product.c + row * product.c_stride;
        for (int j = 0; j < warp_columns / 8; ++j) {
            const int at = column + 8 * j;
            if (at >= product.n) continue;
            const float x = sums[i / 2][j][i % 2 * 2];
            const float y = sums[i / 2][j][i % 2 * 2 + 1];
            if constexpr (aligned) {
                auto* pair = reinterpret_cast<Vec<float, 2>*>(to + at);
                Vec<float, 2> values = {};
                if (accumulate) values = load(pair);
                values[0] = values[0] + x;
                values[1] = values[1] + y;
                store(pair, values);
            } else {
                to[at] = accumulate ? to[at] + x : x;
                if (at + 1 < product.n) to[at + 1] = accumulate ? to[at + 1] + y : y;
            }
        }
    });
}

/// `aligned`: rows of all matrices are whole pieces of 16 bytes.
template <class T, Grouped op, bool aligned>
__global__ void __launch_bounds__(mma_threads, 2) grouped_mma_kernel(GroupedArgs<T> args) {
    using P = Product<T, op>;
    auto& shared = shared_memory<MmaShared<P>>();
    const P& product = shared.next.product;
    for (std::int64_t index = block_index().x; next_product<mma_tile>(shared.next, args, index);
         index += grid_blocks().x) {
        if (op == Grouped::weight_grad && args.accumulate && product.k == 0) continue;
        WarpSums sums = {};
        // At the end there are no registers left for it.
        if constexpr (op == Grouped::biased_forward) start_with_bias<T>(sums, product);
        multiply<T, aligned>(sums, shared, product);
        if constexpr (op == Grouped::weight_grad) {
            store_sums<aligned>(sums, product, args.accumulate);
        } else {
            store_rounded<T, aligned>(sums, shared, product);
        }
    }
}

}  // namespace gptrain::cuda
