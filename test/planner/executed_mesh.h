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
    std::vector<const RankCost*> class_of;    ///< by world rank
    std::vector<std::deque<CommList>> lists;  ///< by stage: the distinct ones
    std::vector<MeshRank> ranks;              ///< in world order
    /// Ranks whose list, memory, work or bytes differ from those of their class.
    std::vector<std::int64_t> strangers;
};

/// Executes every rank, not only one per class.
ExecutedMesh execute_every_rank(const RunPlan& plan, const BackendMemory& needs);

}  // namespace gptrain::test
