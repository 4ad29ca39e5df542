// All ranks of a mesh at once: whether what they say to each other fits together.
#pragma once

#include <span>
#include <vector>

#include "planner/recorded_rank.h"

namespace gptrain::test {

/// A rank of a mesh; ranks that say the same share a list.
struct MeshRank {
    const CommList* list;
    std::vector<RankGroup> groups;  ///< of each communicator
};

/// Ranks in the order of the world. An Error (bug) names ranks and operations where
/// - a communicator lacks a rank, or has one twice;
/// - the n-th operation of a communicator is not the same on all its ranks (of a channel: a send
///   and a receive of the same size);
/// - ranks wait for each other. A rank waits only where its list says so; an operation is over when
///   all ranks of the communicator have issued it and all operations before it are over, a message
///   no earlier than its receive is posted: as late as the seam allows.
void check_whole_mesh(std::span<const MeshRank> ranks);

}  // namespace gptrain::test
