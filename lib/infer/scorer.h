// Scores and writes texts with a trained model by forward passes alone, on any mesh.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/inference.h"
#include "tasks/score_request.h"
#include "tasks/written_text.h"

namespace gptrain {

/// The texts done, as far as this rank knows, and their total.
using TextProgress = std::function<void(std::int64_t, std::int64_t)>;

/// The scores of each request's scored tokens, in order, on rank 0; empty on the others. All ranks
/// call it with the same requests, none of which has more than the model's positions and one token.
/// Data ranks share them. Texts of similar length go through the model together. Errors: (usage)
/// the model does not fit, or a mesh that divides sequences needs longer ones than the model has
/// positions; (bad_input) an id outside the vocabulary; (numerical) the model is not finite.
std::vector<TokenScores> score(const InferenceRun& run, std::span<const ScoreRequest> requests,
                               const TextProgress& progress);

/// The text that the model writes after each prompt (write_texts), on all ranks. Errors as in
/// `score`.
std::vector<std::string> write_by_passes(const InferenceRun& run,
                                         std::span<const WriteRequest> requests,
                                         const WritingRules& rules, const TextProgress& progress);

}  // namespace gptrain
