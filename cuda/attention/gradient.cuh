// Functions that the two tiled backward kernels share.
#pragma once

#include <limits>

#include "cuda/attention/mask.cuh"
#include "cuda/attention/scores.cuh"

namespace gptrain::cuda {

/// log2(e) lse, for `probability`; infinity if nothing is visible, so that all probabilities are 0.
__device__ inline float lse_log2(float lse) {
    constexpr float log2_e = 1.44269504f;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return lse == -infinity ? infinity : lse * log2_e;
}

/// The probability of an unscaled score; pass -infinity for an invisible key.
__device__ inline float probability(const AttentionParams& p, float score, float lse_log2) {
    return exp2_approx(fma(score, p.scale_log2, -lse_log2));
}

/// On entry dp is the gradient of the dropped probability; on return dp = probability (dropout'(dp)
/// - delta), the gradient of the scaled score, and probability is zeroed where dropped, but not yet
/// scaled. Without `with_dropout` everything is kept.
template <bool with_dropout>
__device__ inline void gradient(const AttentionParams& p, float delta, bool kept,
                                float& probability, float& dp) {
    if constexpr (with_dropout) dp = kept ? dp * p.dropout.scale : 0;
    dp = probability * (dp - delta);
    if constexpr (with_dropout) probability = kept ? probability : 0;
}

/// The same where scores are changed. On entry `score` is the product, -infinity for an invisible
/// key; on return it is the probability.
__device__ inline void changed_gradient(const AttentionParams& p, const ScoreChange& change,
                                        int distance, float lse_log2, float delta, bool kept,
                                        float& score, float& dp) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const ScoreChange::Changed changed = change.changed(score, distance);
    score = score == -infinity ? 0 : probability(p, changed.score, lse_log2);
    gradient<true>(p, delta, kept, score, dp);
    dp *= changed.slope;
}

}  // namespace gptrain::cuda
