// Chooses the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace gptrain {

struct SamplingOptions {
    double temperature = 1.0;  ///< 0: always the most likely token
    std::int64_t top_k = 0;    ///< only the k most likely tokens; 0: all
    double top_p = 1.0;        ///< only the most likely tokens whose probabilities sum to p
    std::uint64_t seed = 1234;
};

/// Samples the token at `position` of the output; a pure function of its arguments. Among equal
/// logits the smaller id comes first. A NaN logit is an Error (numerical).
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position);

}  // namespace gptrain
