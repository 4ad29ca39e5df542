// Scores that are more than scaled products of queries and keys: the soft cap and ALiBi.
#pragma once

#include <limits>

#include "cuda/attention/mask.cuh"
#include "cuda/device/tanh.cuh"

namespace gptrain::cuda {

/// The change of the scaled products of one head (AttentionForward). Unused unless `on`.
class ScoreChange {
public:
    __device__ ScoreChange(const AttentionParams& p, int head, bool on) : p_(p) {
        if (on && p.alibi.on()) slope_ = exp2_approx(p.alibi.log2_slope(head));
    }

    /// From the position of a query back to that of a key.
    __device__ int distance(int query, int key) const {
        return p_.q_begin - p_.k_begin + query - key;
    }
    /// The score of a product.
    __device__ float score(float product, int distance) const {
        return changed(product, distance).score;
    }
    /// Also its slope in product scale.
    struct Changed {
        float score;
        float slope;
    };
    __device__ Changed changed(float product, int distance) const {
        float score = product * p_.scale;
        float slope = 1;
        if (p_.softcap > 0) {
            const float t = tanh(score * p_.inverse_softcap);
            score = p_.softcap * t;
            slope = fma(-t, t, 1.0f);
        }
        return {fma(-slope_, static_cast<float>(distance), score), slope};
    }

private:
    const AttentionParams& p_;
    float slope_ = 0;
};

/// Turns products [16 R queries, 8 C keys], laid out like c of multiply_add, into scores. `query`
/// and `key` are the first ones.
template <int R, int C>
__device__ inline void change_scores(const ScoreChange& change, int query, int key,
                                     float (&scores)[R][C][4]) {
    const int first = change.distance(query + lane_index() / 4, key + lane_index() % 4 * 2);
    unrolled<2 * R>([&](int row) {
        for (int j = 0; j < C; ++j) {
            for (int e = 0; e < 2; ++e) {
                float& score = scores[row / 2][j][row % 2 * 2 + e];
                score = change.score(score, first + 8 * row - 8 * j - e);
            }
        }
    });
}

/// True if a kernel draws dropout. One that changes scores has the code for it whether or not the
/// op has dropout, so that there are fewer kernels.
template <class Shape, bool with_dropout = Shape::with_dropout>
__device__ inline bool draws(const AttentionParams& p) {
    return with_dropout && (!Shape::changed || p.dropout.on());
}
/// The words of KeyDropout if nothing is dropped.
constexpr std::uint32_t all_kept = 0xffffffffu;

}  // namespace gptrain::cuda
