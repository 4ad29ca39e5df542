// The logits of one token, read by a warp. Lane l has the experts l, l + 32, ...
#pragma once

#include "base/router.h"
#include "cuda/device/activations.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/ops/logit_row.cuh"

namespace gptrain::cuda {

/// Added to sums of scores before they divide.
constexpr float router_tiny = 1e-20f;

/// The score of an expert needs these numbers besides its logit. All lanes have the same.
struct ScoreBase {
    bool softmax;
    float largest;  ///< logit; softmax only
    float sum;      ///< softmax: of e^(logit - largest); sigmoid: of the scores

    __device__ float score(float logit) const {
        return softmax ? exp_difference(logit, largest) / sum : logistic_or_nan(logit).value;
    }
    /// The share of the expert (the losses of a router).
    __device__ float share(float logit) const {
        return softmax ? score(logit) : score(logit) / (sum + router_tiny);
    }
    /// The derivative of the score divided by the score, without the part that softmax takes from
    /// all experts.
    __device__ float slope(float logit) const {
        return softmax ? 1.0f : logistic_or_nan(logit).tail;
    }
    /// log sum exp(logits), of softmax.
    __device__ double log_sum() const {
        return static_cast<double>(largest) + logarithm(static_cast<double>(sum));
    }
};

/// The whole warp calls it together.
__device__ inline ScoreBase score_base(const float* logits, int experts, bool softmax) {
    ScoreBase base = {softmax, minus_infinity, 0};
    if (softmax) {
        for (int e = lane_index(); e < experts; e += warp_threads)
            base.largest = maximum(base.largest, load(logits + e));
        base.largest = warp_maximum(base.largest);
    }
    for (int e = lane_index(); e < experts; e += warp_threads) {
        const float logit = load(logits + e);
        base.sum = base.sum +
                   (softmax ? exp_difference(logit, base.largest) : logistic_or_nan(logit).value);
    }
    base.sum = warp_sum(base.sum);
    return base;
}

}  // namespace gptrain::cuda
