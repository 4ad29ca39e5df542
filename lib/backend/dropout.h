// Dropout masks as a pure function of coordinates: every mesh, every recompute mode and every
// backend draws the same ones.
#pragma once

#include <cstdint>

#include "backend/step_state.h"
#include "base/philox.h"

namespace gptrain {

enum class DropoutSite : std::uint32_t { embedding, attention, attention_output, mlp_output };

/// Global positions of the local rows of a sequence: rows [0, first_count) are first_begin + row,
/// the others second_begin + (row - first_count). One run of rows on a whole sequence; two on a
/// slice of context parallelism, which holds an early and a late part.
struct SequenceRows {
    std::int64_t first_begin = 0;
    std::int64_t first_count = INT64_MAX;
    std::int64_t second_begin = 0;

    constexpr std::int64_t position(std::int64_t row) const {
        return row < first_count ? first_begin + row : second_begin + (row - first_count);
    }
};

struct Dropout {
    float probability = 0;  ///< 0: off, and nothing else here is read
    std::uint64_t seed = 0;
    DropoutSite site = DropoutSite::embedding;
    std::uint32_t layer = 0;
    SequenceRows rows;
    std::int64_t head_begin = 0;  ///< global index of the first local head (attention)
    StepRef step;
};

/// The stream of one site of one layer in one step.
constexpr PhiloxKey dropout_key(std::uint64_t seed, std::int64_t step, DropoutSite site,
                                std::uint32_t layer) {
    return philox_stream(seed, static_cast<std::uint64_t>(step),
                         1 + static_cast<std::uint32_t>(site), layer);
}

/// Four words, for features 4 i .. 4 i + 3 of one token, or keys 4 i .. 4 i + 3 of one query and
/// head
/// (`sequence` in the global batch, `position` in the sequence; head 0 for features).
constexpr PhiloxBlock dropout_words(PhiloxKey key, std::int64_t sequence, std::int64_t position,
                                    std::int64_t head, std::int64_t i) {
    return philox({static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(position),
                   static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(i)},
                  key);
}

/// An element is dropped if its word is below this; kept ones are multiplied by 1 / (1 -
/// probability).
constexpr std::uint32_t dropout_threshold(float probability) {
    return static_cast<std::uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace gptrain
