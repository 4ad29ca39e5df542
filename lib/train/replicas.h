// Compares ranks that should hold the same weights. Silent faults of memory or arithmetic show as a
// difference.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "engine/engine.h"

namespace gptrain {

/// One rank's report on its weights.
struct ReplicaSum {
    std::array<std::int64_t, axes> checksums{};  ///< as of Engine::weights_checksums
};

/// The ranks, in ascending order, one of whose checksums differs from that of the majority of the
/// ranks in its group on that axis. Without a majority, all of those ranks.
std::vector<std::int64_t> differing_replicas(const std::vector<ReplicaSum>& sums,
                                             const MeshShape& mesh);

/// "rank 3 (dp 1 pp 0 cp 0 tp 1) on node07, rank 5 ..."; `hosts` has that of every rank.
std::string describe_ranks(const std::vector<std::int64_t>& ranks,
                           const std::vector<std::string>& hosts, const MeshShape& mesh);

/// The differing replicas of all ranks, described; empty if there are none. All ranks call it after
/// the same step and get the same text.
std::string differing_weights(Engine& engine, const MpiSession& ranks, const MeshShape& mesh);

}  // namespace gptrain
