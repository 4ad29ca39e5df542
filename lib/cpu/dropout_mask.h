// Dropout factors (backend/dropout.h), vectorised.
#pragma once

#include "backend/dropout.h"
#include "cpu/philox8.h"

namespace gptrain::cpu {

/// The constants of one op call. With probability 0 it is off and reads nothing.
class DropoutMask {
public:
    explicit DropoutMask(const Dropout& dropout) {
        if (dropout.probability == 0) return;
        const StepRef& step = dropout.step;
        const auto* state = reinterpret_cast<const StepState*>(step.state.as<std::uint8_t>());
        key_ = dropout_key(dropout.seed, state->step, dropout.site, dropout.layer);
        threshold_ = dropout_threshold(dropout.probability);
        scale_ = static_cast<float>(1 / (1 - static_cast<double>(dropout.probability)));
        rows_ = dropout.rows;
        head_begin_ = dropout.head_begin;
        feature_begin_ = dropout.feature_begin;
        first_sequence_ = step.first_sequence.as<std::int64_t>()[step.slot];
        on_ = true;
    }

    bool on() const { return on_; }

    /// Factors of 32 features of a row of [B, S], from `feature` (a multiple of 32) on.
    void features(std::int64_t row, std::int64_t seq_length, std::int64_t feature,
                  float* factors) const {
        const PhiloxBlocks8 counters = {{same(first_sequence_ + row / seq_length),
                                         same(rows_.position(row % seq_length)), same(0),
                                         counters_from((feature_begin_ + feature) / 4)}};
        alignas(32) std::uint32_t words[32];
        store_in_order(philox8(counters, key_), words);
        for (std::int64_t i = 0; i < 4; ++i) {
            factor(_mm256_load_si256(reinterpret_cast<const __m256i*>(words) + i))
                .store(factors + i * 8);
        }
    }

    /// Factors of four keys from `key` (a multiple of 4) on, for eight consecutive queries from
    /// `position` on.
    struct Keys {
        Vec8 factors[4];
    };
    Keys keys(std::int64_t sequence, std::int64_t position, std::int64_t head,
              std::int64_t key) const {
        const PhiloxBlocks8 words =
            philox8({{same(first_sequence_ + sequence), counters_from(position),
                      same(head_begin_ + head), same(key / 4)}},
                    key_);
        Keys result;
        for (int i = 0; i < 4; ++i)
            result.factors[i] = factor(words.words[i]);
        return result;
    }

private:
    static __m256i same(std::int64_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

    /// scale if word >= threshold, else 0
    Vec8 factor(__m256i words) const {
        const __m256i limit = same(static_cast<std::int64_t>(threshold_));
        const __m256i kept = _mm256_cmpeq_epi32(_mm256_max_epu32(words, limit), words);
        return _mm256_and_ps(_mm256_castsi256_ps(kept), _mm256_set1_ps(scale_));
    }

    bool on_ = false;
    PhiloxKey key_{};
    std::uint32_t threshold_ = 0;
    float scale_ = 1;
    RowPositions rows_;
    std::int64_t head_begin_ = 0;
    std::int64_t feature_begin_ = 0;
    std::int64_t first_sequence_ = 0;
};

/// Calls f(h, lanes, factor) for the vectors of a row's features; factor is 1 without dropout.
void for_dropped_vectors(const DropoutMask& mask, std::int64_t row, std::int64_t seq_length,
                         std::int64_t begin, std::int64_t end, const auto& f) {
    if (!mask.on()) {
        for_vectors(begin, end, [&](std::int64_t h, auto lanes) { f(h, lanes, Vec8(1.0f)); });
        return;
    }
    alignas(32) float factors[32];
    for (std::int64_t block = begin; block < end; block += 32) {
        mask.features(row, seq_length, block, factors);
        for_vectors(block, std::min(block + 32, end), [&](std::int64_t h, auto lanes) {
            f(h, lanes, Vec8::load(factors + (h - block)));
        });
    }
}

}  // namespace gptrain::cpu
