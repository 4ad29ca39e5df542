// Scores texts with a trained model, on any mesh: how likely their tokens are.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/inference.h"
#include "tasks/score_request.h"

namespace gptrain {

/// The scores of each request's scored tokens, in order, on rank 0; empty on the others. All ranks
/// call it with the same requests, none of which has more than the model's positions and one token.
/// Data ranks share them. Texts of similar length go through the model together. Calls `progress`
/// with the texts done, as far as this rank knows, and their total. Errors: (usage) the model does
/// not fit, or a mesh that divides sequences needs longer ones than the model has positions;
/// (bad_input) an id outside the vocabulary; (numerical) the model is not finite.
std::vector<TokenScores> score(const InferenceRun& run, std::span<const ScoreRequest> requests,
                               const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace gptrain
