// Meshes of ranks on the CPU: all cases.
#include "comm/mpi_mesh.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    return mpi_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener);
}

std::vector<MeshCase> tested_cases(std::int64_t ranks) {
    return mesh_cases(ranks);
}

}  // namespace gptrain::test
