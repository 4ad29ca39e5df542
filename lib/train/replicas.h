// Ranks that should hold the same weights, compared: memory or arithmetic that fails silently shows
// as a difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"

namespace gptrain {

/// What one rank says of its weights.
struct ReplicaSum {
    std::int64_t checksum = 0;
    std::string host;
};

/// The ranks, in the order of ranks, whose checksum is not that of most of the ranks that hold the
/// same weights (those of one place on pp and tp). Where no sum has a majority: all of them.
std::vector<std::int64_t> odd_replicas(const std::vector<ReplicaSum>& of_ranks,
                                       const MeshShape& mesh);

/// "rank 3 (dp 1 pp 0 cp 0 tp 1) on node07, rank 5 ..."
std::string describe_replicas(const std::vector<std::int64_t>& ranks,
                              const std::vector<ReplicaSum>& of_ranks, const MeshShape& mesh);

}  // namespace gptrain
