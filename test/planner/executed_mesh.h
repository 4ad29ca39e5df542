// A step of every rank of a mesh, executed over the meter one by one.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "planner/mesh_cost.h"
#include "planner/whole_mesh.h"

namespace gptrain::test {

struct ExecutedMesh {
    std::vector<RankCost> classes;            ///< with the costs of their first ranks
    std::vector<const RankCost*> class_of;    ///< by rank of the world
    std::vector<std::deque<CommList>> lists;  ///< by stage: those that differ
    std::vector<MeshRank> ranks;              ///< of the world
    /// Ranks whose list, memory, work or bytes are not those of their class.
    std::vector<std::int64_t> strangers;
};

/// No rank stands for another.
ExecutedMesh execute_every_rank(const RunPlan& plan, const BackendMemory& needs);

}  // namespace gptrain::test
