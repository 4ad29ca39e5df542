// Which attention kernels the ranks ask for once each has checked those for sm_90a.
#pragma once

#include <string>
#include <vector>

#include "cuda/environment.h"

namespace gptrain {

/// The attention kernels that a rank asks its backend for. `faults` describes what is wrong with
/// the kernels for sm_90a on each rank's GPU, empty where nothing is; `wanted` is the user's
/// choice. If any GPU has a fault, all ranks use the portable kernels, so that GPUs of one kind
/// compute alike, and rank 0 warns; if the user asked for the kernels for sm_90a, throws Error
/// (usage) instead.
cuda::AttentionChoice agreed_attention(const std::vector<std::string>& faults,
                                       cuda::AttentionChoice wanted, int rank);

}  // namespace gptrain
