// Meshes of ranks on the CPU: all cases, with messages that are late.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/log.h"
#include "comm/mpi_mesh.h"
#include "delayed.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    const CommunicatorFactory make = delayed(mpi_communicators(session(), backend));
    if (session().rank() == 0) print("messages start ", name_of(messages_start()));
    Mesh mesh(plan.mesh, place_of(session().rank(), plan.mesh), mesh_connections(plan),
              observed(make, listener));
    mesh.warm_up();
    return mesh;
}

bool holds_planned_messages() {
    // Fewer messages that start late may be under way at once.
    return messages_start() == Start::at_issue;
}

std::vector<MeshCase> tested_cases(std::int64_t ranks) {
    const std::vector<MeshCase> all = mesh_cases(ranks);
    if (ranks <= 4 || std::getenv("GPTRAIN_MESH_CASES") != nullptr) return all;
    // Four ranks show each axis and each pair of axes with everything. Eight add a third axis, and
    // more ranks of an axis.
    std::vector<MeshCase> some = covering(all);
    std::erase_if(some, has_three_axes);
    std::copy_if(all.begin(), all.end(), std::back_inserter(some), has_three_axes);
    return some;
}

}  // namespace gptrain::test
