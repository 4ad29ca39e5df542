// delta = sum over D of d_o o, one value per query and head. Memory-bound: reads 2 elements per
// feature.
#include "cuda/attention/kernels.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

struct DeltaRows {
    HeadTensor o;
    HeadTensor d_o;
    float* delta;  ///< [B, N, Sq]
    int queries;
    int pieces;     ///< pieces of V elements in a row
    int row_lanes;  ///< lanes that share a row: a power of 2
};

template <class T, int V>
__global__ void __launch_bounds__(block_size) delta_kernel(DeltaRows args) {
    const int lane = thread_index() % args.row_lanes;
    const int query =
        block_index().x * (block_size / args.row_lanes) + thread_index() / args.row_lanes;
    const int head = block_index().y;
    const int sequence = block_index().z;
    float sum = 0;
    if (query < args.queries) {
        const T* o = args.o.head<T>(sequence, head) + query * args.o.row_stride;
        const T* d_o = args.d_o.head<T>(sequence, head) + query * args.d_o.row_stride;
        for (int i = lane; i < args.pieces; i += args.row_lanes) {
            const auto x = load_constant(reinterpret_cast<const Vec<T, V>*>(o) + i);
            const auto dx = load_constant(reinterpret_cast<const Vec<T, V>*>(d_o) + i);
            for (int e = 0; e < V; ++e)
                sum = fma(widen(dx[e]), widen(x[e]), sum);
        }
    }
    for (int mask = args.row_lanes / 2; mask > 0; mask /= 2)
        sum += shuffle_xor(sum, mask);
    const std::int64_t row = std::int64_t{sequence} * grid_blocks().y + head;
    if (lane == 0 && query < args.queries) args.delta[row * args.queries + query] = sum;
}

template <class T, int V>
void launch_delta(const AttentionParams& params, const AttentionGradients& gradients, float* delta,
                  const Stream& stream) {
    const int pieces = params.head_dim / V;
    int row_lanes = 1;
    while (row_lanes < std::min(pieces, warp_threads))
        row_lanes *= 2;
    const DeltaRows args = {.o = params.o,
                            .d_o = gradients.d_o,
                            .delta = delta,
                            .queries = params.queries,
                            .pieces = pieces,
                            .row_lanes = row_lanes};
    launch(stream,
           {.blocks = div_ceil(params.queries, block_size / row_lanes),
            .threads = block_size,
            .blocks_y = params.heads,
            .blocks_z = params.sequences},
           delta_kernel<T, V>, args);
}

}  // namespace

template <class T>
void attention_delta(const AttentionParams& params, const AttentionGradients& gradients,
                     float* delta, const Stream& stream) {
    constexpr int elements = 16 / sizeof(T);
    const bool whole =
        params.head_dim % elements == 0 && aligned_16<T>(params.o) && aligned_16<T>(gradients.d_o);
    whole ? launch_delta<T, elements>(params, gradients, delta, stream)
          : launch_delta<T, 1>(params, gradients, delta, stream);
}

template void attention_delta<float>(const AttentionParams&, const AttentionGradients&, float*,
                                     const Stream&);
template void attention_delta<Bf16>(const AttentionParams&, const AttentionGradients&, float*,
                                    const Stream&);
template void attention_delta<F16>(const AttentionParams&, const AttentionGradients&, float*,
                                   const Stream&);

}  // namespace gptrain::cuda
