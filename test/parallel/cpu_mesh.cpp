// Meshes of ranks on the CPU: all cases, with messages that are late.
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
    return mesh_cases(ranks);
}

}  // namespace gptrain::test
