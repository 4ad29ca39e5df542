// Why a step's update was left out, found where it happened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.h"

namespace gptrain {

/// What one rank knows of a step whose loss or gradients are not finite.
struct StepFault {
    std::int64_t sample = -1;  ///< first of the microbatch whose loss is not finite; -1: none
    std::int64_t begin = -1;   ///< of the first such gradient in the stage's flat order; -1: none
    std::string tensor;        ///< its name

    /// As a message to other ranks, and back.
    std::string to_text() const;
    static StepFault of_text(std::string_view text);
};

/// "the loss of rank 5 (dp 1 pp 1 cp 0 tp 0) from sample 37 on; the gradient of h.3.mlp.fc.weight":
/// the lowest rank that met a loss, and the gradient nearest to the loss. `of_ranks` in the order
/// of ranks.
std::string describe(const std::vector<StepFault>& of_ranks, const MeshShape& mesh);

}  // namespace gptrain
