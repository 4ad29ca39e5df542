// AdamW on one element, and what its kernels share (formula: step_ops.h).
#pragma once

#include "cuda/device/device.cuh"
#include "cuda/ops/scratch_sizes.h"

namespace gptrain::cuda {

/// Index of the last entry whose `first_chunk` is at most `chunk`.
template <class Entry>
__device__ inline int find_entry(const Entry* entries, int count, std::int64_t chunk) {
    int low = 0;
    int high = count;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (entries[middle].first_chunk <= chunk ? low : high) = middle;
    }
    return low;
}

inline bool is_aligned(const void* p, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

/// Elements that a block updates.
constexpr std::int64_t update_chunk = 4096;

/// Values shared by all elements of a step.
struct AdamWUpdate {
    float grad_factor;
    float beta1, one_minus_beta1;
    float beta2, one_minus_beta2;
    float rate;             ///< learning rate / (1 - beta1^t)
    float root_correction;  ///< sqrt(1 - beta2^t)
    float eps;
    float decay;  ///< 1 - learning rate x weight decay
    int skip;
    std::uint32_t step;  ///< of stochastic rounding
};
static_assert(sizeof(AdamWUpdate) <= update_bytes);

/// Updates one element; returns the new main parameter.
__device__ inline float update_element(const AdamWUpdate& update, float decay, float grad,
                                       float param, float& exp_avg, float& exp_avg_sq) {
    const float g = grad * update.grad_factor;
    exp_avg = fma(update.beta1, exp_avg, update.one_minus_beta1 * g);
    exp_avg_sq = fma(update.beta2, exp_avg_sq, update.one_minus_beta2 * g * g);
    const float root = square_root(exp_avg_sq) / update.root_correction + update.eps;
    return param * decay - update.rate * exp_avg / root;
}

}  // namespace gptrain::cuda
