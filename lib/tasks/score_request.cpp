#include "tasks/score_request.h"

#include <algorithm>
#include <cmath>

namespace gptrain {

bool are_finite(std::span<const TokenScores> scores) {
    const auto finite = [](const TokenScore& score) {
        return std::isfinite(score.log_probability);
    };
    return std::all_of(scores.begin(), scores.end(), [&](const TokenScores& request) {
        return std::all_of(request.begin(), request.end(), finite);
    });
}

}  // namespace gptrain
