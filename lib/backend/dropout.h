// Dropout masks as a pure function of coordinates: every mesh, recompute mode and backend draws the
// same masks.
#pragma once

#include <cstdint>

#include "backend/step_state.h"
#include "base/philox.h"

namespace gptrain {

enum class DropoutSite : std::uint32_t {
    embedding,
    attention,
    attention_output,
    mlp_output,
    // The inputs of LoRA, by linear layer.
    lora_qkv,
    lora_attn_proj,
    lora_fc_gate,
    lora_mlp_proj,
};

/// Global positions of a sequence's local rows: rows [0, first_count) begin at first_begin, the
/// others at second_begin. A whole sequence is one run of rows; a rank's part under ring context
/// parallelism is two runs, one early and one late. After every `stripe` rows of a run, the next
/// `gap` positions belong to other ranks.
struct RowPositions {
    std::int64_t first_begin = 0;
    std::int64_t first_count = INT64_MAX;
    std::int64_t second_begin = 0;
    std::int64_t stripe = INT64_MAX;
    std::int64_t gap = 0;

    constexpr std::int64_t position(std::int64_t row) const {
        const bool first = row < first_count;
        const std::int64_t in_run = first ? row : row - first_count;
        return (first ? first_begin : second_begin) + in_run + in_run / stripe * gap;
    }
};

struct Dropout {
    float probability = 0;  ///< 0: off, and the other members are ignored
    std::uint64_t seed = 0;
    DropoutSite site = DropoutSite::embedding;
    std::uint32_t layer = 0;
    RowPositions rows;
    std::int64_t head_begin = 0;  ///< global index of the first local head (attention only)
    /// Global index of the first local feature, a multiple of 4; 0 except in apply_dropout.
    std::int64_t feature_begin = 0;
    StepRef step;
};

/// The random stream of one site of one layer in one step.
constexpr PhiloxKey dropout_key(std::uint64_t seed, std::int64_t step, DropoutSite site,
                                std::uint32_t layer) {
    return philox_stream(seed, static_cast<std::uint64_t>(step),
                         1 + static_cast<std::uint32_t>(site), layer);
}

/// Four random words: for features 4 i .. 4 i + 3 of a token, or for keys 4 i .. 4 i + 3 of a query
/// and head. `sequence` counts in the global batch, `position` in the sequence; head is 0 for
/// features.
constexpr PhiloxBlock dropout_words(PhiloxKey key, std::int64_t sequence, std::int64_t position,
                                    std::int64_t head, std::int64_t i) {
    return philox({static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(position),
                   static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(i)},
                  key);
}

/// An element is dropped if its word is below this. Kept elements are multiplied by 1 / (1 -
/// probability).
constexpr std::uint32_t dropout_threshold(float probability) {
    return static_cast<std::uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace gptrain
