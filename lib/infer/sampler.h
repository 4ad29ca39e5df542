// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace gptrain {

struct SamplingOptions {
    double temperature = 1.0;  ///< 0: always the likeliest token
    std::int64_t top_k = 0;    ///< only the k likeliest tokens; 0: all
    double top_p = 1.0;        ///< only the likeliest tokens whose probabilities add up to p
    std::uint64_t seed = 1234;
};

/// The token at `position` of the output: a function of the logits, the options and the position
/// alone. Of equal logits the smaller id comes first. NaN among the logits is an Error (numerical).
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position);

}  // namespace gptrain
