// A task's question to a model: how likely the last tokens of a text are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gptrain {

struct ScoreRequest {
    std::vector<std::int32_t> ids;  ///< at least one more than are scored
    std::int64_t scored = 0;        ///< number of scored tokens at the end, at least one
};

/// A model's score of a token, given those before it.
struct TokenScore {
    double log_probability = 0;
    bool likeliest = false;  ///< no other token has a larger logit
};

using TokenScores = std::vector<TokenScore>;  ///< of a request's scored tokens

/// False if the model that gave the scores is not finite.
bool are_finite(std::span<const TokenScores> scores);

}  // namespace gptrain
