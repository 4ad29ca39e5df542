// Sums and maxima over the threads of a warp or a block, in an order that depends only on the
// number of threads. All threads get the same bits.
#pragma once

#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// T is float or double.
template <class T>
__device__ inline T warp_sum(T x) {
    for (int mask = warp_threads / 2; mask > 0; mask /= 2)
        x = x + shuffle_xor(x, mask);
    return x;
}
__device__ inline float warp_maximum(float x) {
    for (int mask = warp_threads / 2; mask > 0; mask /= 2)
        x = maximum(x, shuffle_xor(x, mask));
    return x;
}

/// Sum of x over the lower lanes; T is unsigned or int.
template <class T>
__device__ inline T sum_of_lanes_before(T x) {
    T sum = x;
    for (int distance = 1; distance < warp_threads; distance *= 2) {
        const T below = shuffle_up(sum, distance);
        if (lane_index() >= distance) sum += below;
    }
    return sum - x;
}

/// For a block of `warps` warps. `of_warps` is shared memory; reuse it only after the next barrier.
template <class T, int warps>
__device__ inline T block_sum(T x, T (&of_warps)[warps]) {
    const T of_warp = warp_sum(x);
    const int at = warp_index();
    if (lane_index() == 0) of_warps[at] = of_warp;
    block_barrier();
    T sum = of_warps[0];
    for (int warp = 1; warp < warps; ++warp)
        sum = sum + of_warps[warp];
    return sum;
}
template <int warps>
__device__ inline float block_maximum(float x, float (&of_warps)[warps]) {
    const float of_warp = warp_maximum(x);
    const int at = warp_index();
    if (lane_index() == 0) of_warps[at] = of_warp;
    block_barrier();
    float largest = of_warps[0];
    for (int warp = 1; warp < warps; ++warp)
        largest = maximum(largest, of_warps[warp]);
    return largest;
}

/// The sum of a column of shared memory in which each warp has a row, in the order of the warps.
template <int warps, int columns>
__device__ inline float column_sum(const float (&rows)[warps][columns], int column) {
    float sum = rows[0][column];
    for (int warp = 1; warp < warps; ++warp)
        sum = sum + rows[warp][column];
    return sum;
}
template <int warps, int columns>
__device__ inline float column_maximum(const float (&rows)[warps][columns], int column) {
    float largest = rows[0][column];
    for (int warp = 1; warp < warps; ++warp)
        largest = maximum(largest, rows[warp][column]);
    return largest;
}

}  // namespace gptrain::cuda
