// Which attention kernels the ranks ask for once those for sm_90a have been checked.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/node_cache.h"
#include "child_checks.h"
#include "cuda/environment.h"

namespace gptrain {

/// True if the rank checks the kernels for its node: the first one there that runs them. All GPUs
/// that do have one compute capability. `nodes`: of each rank that runs them, its node; else empty.
bool checks_attention(const std::vector<std::string>& nodes, int rank);

/// The fault that `check`, given a time limit, finds. A node that is busy, or reads the program for
/// the first time, may need long: if the time runs out, checks once more with a longer limit.
std::string attention_fault(const std::function<AttentionCheck(std::chrono::seconds limit)>& check);

/// The same, unless no fault was found before on this node: on this `device` (cuda::device_name) by
/// the same `program` with the same driver. A device without a name is checked every time.
std::string attention_fault_or_recall(
    const NodeCache& cache, const std::string& device, const std::string& program,
    const std::function<AttentionCheck(std::chrono::seconds limit)>& check);

/// The attention kernels that a rank asks its backend for. `faults` describes what is wrong with
/// the kernels for sm_90a on each rank's GPU, empty where nothing is; `wanted` is the user's
/// choice. If any GPU has a fault, all ranks use the portable kernels, so that GPUs of one kind
/// compute alike, and rank 0 warns; if the user asked for the kernels for sm_90a, throws Error
/// (usage) instead.
cuda::AttentionChoice agreed_attention(const std::vector<std::string>& faults,
                                       cuda::AttentionChoice wanted, int rank);

}  // namespace gptrain
