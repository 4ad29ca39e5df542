// Why a step's update was skipped, as found on each rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.h"

namespace gptrain {

/// One rank's findings on a step with a non-finite loss or gradient.
struct StepFault {
    std::int64_t sample = -1;  ///< first sample of the microbatch with a non-finite loss; -1: none
    /// offset of the first non-finite gradient in the stage's flat order; -1: none
    std::int64_t begin = -1;
    std::string tensor;  ///< name of that gradient's tensor

    /// Converts to and from a message for other ranks.
    std::string to_text() const;
    static StepFault from_text(std::string_view text);
};

/// "the loss of rank 5 (dp 1 pp 1 cp 0 tp 0) from sample 37 on; the gradient of h.3.mlp.fc.weight":
/// the lowest rank with a non-finite loss, and the non-finite gradient nearest to the loss.
/// `faults` is indexed by rank.
std::string describe(const std::vector<StepFault>& faults, const MeshShape& mesh);

}  // namespace gptrain
