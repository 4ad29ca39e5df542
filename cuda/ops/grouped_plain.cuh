// A tile of a product of fp32 matrices.
#pragma once

#include "cuda/ops/grouped_product.cuh"

namespace gptrain::cuda {

constexpr int plain_tile = 64;
constexpr int plain_depth = 16;
constexpr int plain_threads = 256;
/// Rows and columns of a thread: four neighbouring rows, every sixteenth column.
constexpr int plain_share = 4;

/// The row stride is odd, so that threads writing a column use different banks.
struct PlainOperand {
    float at[plain_depth][plain_tile + 1];
};
template <class Product>
struct PlainShared {
    PlainOperand a;
    PlainOperand b;
    SharedProduct<Product> next;
};

/// Loads `k` terms for `size` rows or columns; those that do not exist become 0.
template <bool by_k>
__device__ inline void load_operand(PlainOperand& to, const float* from, std::int64_t stride,
                                    int size, int k) {
    for (int i = thread_index(); i < plain_tile * plain_depth; i += plain_threads) {
        const int at = by_k ? i / plain_depth : i % plain_tile;
        const int term = by_k ? i % plain_depth : i / plain_tile;
        const float* place = from + (by_k ? at * stride + term : term * stride + at);
        to.at[term][at] = at < size && term < k ? load(place) : 0.0f;
    }
}

template <Grouped op>
__global__ void __launch_bounds__(plain_threads, 2) grouped_plain_kernel(GroupedArgs<float> args) {
    using P = Product<float, op>;
    auto& [a, b, next] = shared_memory<PlainShared<P>>();
    const P& product = next.product;
    const int row = thread_index() / 16 * plain_share;
    const int column = thread_index() % 16;
    for (std::int64_t index = block_index().x; next_product<plain_tile>(next, args, index);
         index += grid_blocks().x) {
        float sums[plain_share][plain_share] = {};
        for (int part = 0; part < product.parts; ++part) {
            for (int begin = 0; begin < product.k; begin += plain_depth) {
                const int k = product.k - begin;
                block_barrier();
                load_operand<P::a_by_k>(a, product.a_at(part, begin), product.a_stride, product.m,
                                        k);
                load_operand<P::b_by_k>(b, product.b_at(part, begin), product.b_stride, product.n,
                                        k);
                block_barrier();
                for (int term = 0; term < plain_depth; ++term) {
                    for (int i = 0; i < plain_share; ++i) {
                        for (int j = 0; j < plain_share; ++j)
                            sums[i][j] =
                                fma(a.at[term][row + i], b.at[term][column + 16 * j], sums[i][j]);
                    }
                }
            }
        }
        for (int i = 0; i < plain_share && row + i < product.m; ++i) {
            float* to = product.c + (row + i) * product.c_stride;
            for (int j = 0; j < plain_share; ++j) {
                const int at = column + 16 * j;
                if (at >= product.n) continue;
                if constexpr (op == Grouped::biased_forward) {
                    to[at] = sums[i][j] + load(product.bias + at);
                } else {
                    to[at] = op == Grouped::weight_grad && args.accumulate ? to[at] + sums[i][j]
                                                                           : sums[i][j];
                }
            }
        }
    }
}

}  // namespace gptrain::cuda
