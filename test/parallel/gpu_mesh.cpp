// Meshes of ranks on GPUs: over NCCL if each rank has its own GPU or GPTRAIN_SHARE_GPU=nccl, else
// over MPI through host memory. Ranks that share a GPU take turns on it, so only some of the cases
// run.
#include "comm/mpi_mesh.h"
#include "cuda/nccl/device_choice.h"
#include "cuda/nccl/mesh.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    static const cuda::Sharing sharing = cuda::choose_device(session()).sharing;
    if (sharing == cuda::Sharing::mpi)
        return mpi_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener);
    cuda::set_nccl_environment(true);
    return cuda::nccl_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener);
}

bool holds_planned_messages() {
    // The plan does not include the messages of ranks that share a GPU.
    return false;
}

std::vector<MeshCase> tested_cases(std::int64_t ranks) {
    return covering(mesh_cases(ranks));
}

}  // namespace gptrain::test
