// Scores and shares of experts from the logits of a token, for the ops of a router.
#pragma once

#include <cmath>
#include <omp.h>

#include "backend/ops.h"
#include "backend/scratch.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "cpu/vector_math.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

/// Cost of an expert's score, in elements.
constexpr std::int64_t score_cost = 8;

/// A softmax over a token's logits.
struct Softmax {
    float maximum = 0;
    float sum = 0;  ///< of exp(logit - maximum)

    Softmax(const float* logits, std::int64_t experts) {
        Vec8 largest = -INFINITY;
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            largest = max(largest, masked(load(logits + e, lanes), lanes, Vec8(-INFINITY)));
        });
        maximum = largest.maximum();
        Vec8 sums = 0.0f;
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            sums = sums + masked(exponential(logits + e, lanes), lanes, Vec8(0.0f));
        });
        sum = sums.sum();
    }
    /// exp(logit - maximum)
    Vec8 exponential(const float* logits, auto lanes) const {
        return exp(load(logits, lanes) - Vec8(maximum));
    }
    /// The probabilities.
    Vec8 at(const float* logits, auto lanes) const {
        return exponential(logits, lanes) / Vec8(sum);
    }
};

/// The scores of a token's experts; returns their sum.
inline float router_scores(RouterScore score, const float* logits, std::int64_t experts,
                           float* scores) {
    Vec8 sums = 0.0f;
    const auto each = [&](const auto& score_at) {
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            const Vec8 s = score_at(logits + e, lanes);
            sums = sums + masked(s, lanes, Vec8(0.0f));
            store(scores + e, s, lanes);
        });
    };
    if (score == RouterScore::sigmoid) {
        each([](const float* at, auto lanes) { return logistic(load(at, lanes)).value; });
    } else {
        const Softmax softmax(logits, experts);
        each([&](const float* at, auto lanes) { return softmax.at(at, lanes); });
    }
    return sums.sum();
}

/// The shares of a token's experts; returns what sigmoid scores were divided by, or 1.
inline float router_shares(RouterScore score, const float* logits, std::int64_t experts,
                           float* shares) {
    const float sum = router_scores(score, logits, experts, shares);
    if (score == RouterScore::softmax) return 1;
    const float divisor = sum + 1e-20f;
    for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
        store(shares + e, load(shares + e, lanes) / Vec8(divisor), lanes);
    });
    return divisor;
}

/// The sum of a[i] b[i].
inline float dot(const auto* a, const auto* b, std::int64_t count) {
    Vec8 sums = 0.0f;
    for_vectors(0, count, [&](std::int64_t i, auto lanes) {
        sums = fma(load(a + i, lanes), load(b + i, lanes), sums);
    });
    return sums.sum();
}

/// Scratch rows of E floats, `count` for each thread.
class ExpertRows {
public:
    ExpertRows(std::int64_t experts, std::int64_t count, Scratch& scratch)
        : stride_(stride_of(experts)), count_(count) {
        memory_ = scratch.take<float>(omp_get_max_threads() * count * stride_);
    }
    /// Row `index` of the calling thread.
    float* operator[](std::int64_t index) const {
        return memory_ + (omp_get_thread_num() * count_ + index) * stride_;
    }
    static std::int64_t bytes(std::int64_t experts, std::int64_t count, std::int64_t threads) {
        return Scratch::bytes_of<float>(threads * count * stride_of(experts));
    }

private:
    /// Threads share no cache line.
    static std::int64_t stride_of(std::int64_t experts) { return round_up(experts, 16); }

    std::int64_t stride_;
    std::int64_t count_;
    float* memory_;
};

}  // namespace gptrain::cpu
