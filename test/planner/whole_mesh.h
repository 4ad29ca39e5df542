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

/// When a rank starts an operation that it has issued.
enum class StartRule {
    mpi,   ///< at once
    nccl,  ///< after all that it issued before have started, on any communicator, and those of the
           ///< same communicator have completed
};

/// `ranks` are in world order. Throws an Error (bug) that names ranks and operations if
/// - a communicator lacks a rank or has one twice;
/// - the n-th operation of a communicator differs between its ranks (of a channel: if it is not a
///   send and a receive of the same size);
/// - ranks wait for each other. An operation completes when all ranks of the communicator have
///   started it and all operations before it have completed, which is the latest that the contract
///   allows. A rank waits where its list says so, and for the start rule.
void check_whole_mesh(std::span<const MeshRank> ranks, StartRule rule = StartRule::mpi);

}  // namespace gptrain::test
