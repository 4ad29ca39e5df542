// How a router turns the logits of a token into its experts and their weights.
#pragma once

#include <array>
#include <cstdint>

#include "base/words.h"

namespace gptrain {

/// The score of an expert from a token's logits.
enum class RouterScore { softmax, sigmoid };
constexpr auto words_of(RouterScore) {
    using enum RouterScore;
    return std::to_array<Word<RouterScore>>({{softmax, "softmax"}, {sigmoid, "sigmoid"}});
}

/// With the scores s of a token (softmax over all its logits, or the sigmoid of each), c = s + the
/// bias of the choice: among the `kept_groups` groups whose two largest c have the largest sum, the
/// experts with the largest c are chosen; their weights are w = s, divided by the sum of the chosen
/// s + 1e-20 if `normalize`, times `scale`. Of equals the lower index wins, and NaN counts as less
/// than every number. A group of one expert has the sum c.
struct RouterRule {
    RouterScore score = RouterScore::softmax;
    bool normalize = true;
    double scale = 1;
    std::int64_t groups = 1;  ///< of E / groups neighbouring experts; 1: all are in one group
    std::int64_t kept_groups = 1;

    bool operator==(const RouterRule&) const = default;
};

}  // namespace gptrain
