// Checks that the communication of all ranks of a mesh fits together.
#pragma once

#include <span>
#include <vector>

#include "planner/recorded_rank.h"

namespace gptrain::test {

/// A rank of a mesh; ranks with the same list share it.
struct MeshRank {
    const CommList* list;
    std::vector<RankGroup> groups;  ///< of each communicator
};

/// `ranks` are in world order. Throws an Error (bug) that names ranks and operations if
/// - a communicator lacks a rank or has one twice;
/// - the n-th operation of a communicator differs between its ranks (of a channel: if it is not a
/// send
///   and a receive of the same size);
/// - ranks wait for each other. A rank waits only where its list says so. An operation completes
/// when
///   all ranks of the communicator have issued it and all operations before it have completed; a
///   message not before its receive is posted. That is the latest that the contract allows.
///   no earlier than its receive is posted: as late as the seam allows.
void check_whole_mesh(std::span<const MeshRank> ranks);

}  // namespace gptrain::test
