// Chooses the next token from logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gptrain {

struct SamplingOptions {
    double temperature = 1.0;       ///< 0: always the most likely token
    std::int64_t top_k = 0;         ///< only the k most likely tokens; 0: all
    double top_p = 1.0;             ///< only the most likely tokens whose probabilities sum to p
    double min_p = 0;               ///< only tokens at least min_p times as likely as the likeliest
    double repetition_penalty = 1;  ///< of tokens that occurred (penalize); 1: none
    std::uint64_t seed = 1234;
};

/// The place of a draw. With seed and logits, it determines the token drawn.
struct DrawPlace {
    std::int64_t position = 0;  ///< in the output
    std::int64_t sample = 0;    ///< which continuation of a prompt
    std::int64_t turn = 0;      ///< which prompt or answer
};

/// The logits of tokens that occur in `context` are divided by `penalty` if positive, else
/// multiplied by it, once however often they occur (CTRL, arXiv:1909.05858, section 4.1).
void penalize(std::span<float> logits, std::span<const std::int32_t> context, double penalty);

struct TokenChance {
    std::int32_t id = 0;
    double weight = 1;  ///< probability relative to the likeliest token's
};

/// The tokens that can be drawn, likeliest first; ties go to the smaller id. The options apply in
/// the order temperature, top_k, top_p, min_p, as in transformers; the penalty is not applied. A
/// NaN logit is an Error (numerical).
std::vector<TokenChance> token_chances(std::span<const float> logits,
                                       const SamplingOptions& options);

/// Samples one of them; a pure function of its arguments.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const DrawPlace& place);

}  // namespace gptrain
