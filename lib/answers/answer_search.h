// The meshes and batches with which `generate` answers with low latency or high throughput.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "answers/answer_cost.h"

namespace gptrain {

struct AnswerQuestion {
    std::int64_t prompt_tokens = 1;
    std::int64_t new_tokens = 1;
    std::vector<std::int64_t> batches;   ///< empty: 1, 2, 4, ... as far as they fit
    std::vector<std::int64_t> tensor;    ///< empty: divisors of the ranks
    std::vector<std::int64_t> pipeline;  ///< empty: divisors of the ranks
    double max_seconds = std::numeric_limits<double>::infinity();  ///< of an answer
};

struct RefusedMesh {
    std::int64_t tensor = 1;
    std::int64_t pipeline = 1;
    std::string rule;  ///< of the run spec
};

struct AnswerResult {
    /// The answers that fit and are fast enough, the shortest first. If no batches are given, only
    /// the Pareto-optimal ones: no other answer is as short and gives as many tokens per second.
    std::vector<AnswerCost> best;
    std::vector<AnswerCost> too_large;  ///< the smallest batch of each mesh that does not fit
    std::vector<RefusedMesh> refused;
    double least_seconds = std::numeric_limits<double>::infinity();  ///< of all that fit
};

/// Prices every mesh of the context's ranks, whose copies share the ranks evenly. Error (usage) if
/// the model has too few positions for the question.
AnswerResult search_answers(const SearchContext& context, const AnswerQuestion& question);

}  // namespace gptrain
