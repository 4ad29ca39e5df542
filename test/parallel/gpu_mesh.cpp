// Meshes of ranks on GPUs. If each rank has its own GPU, every second mesh sends by copies where it
// can, and the others over NCCL. Ranks that share a GPU send as GPTRAIN_SHARE_GPU says; they take
// turns on it, so only some of the cases run.
#include "comm/mpi_mesh.h"
#include "cuda/mesh/device_choice.h"
#include "cuda/mesh/mesh.h"
#include "cuda/mesh/peers.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    static const cuda::Sharing sharing = cuda::choose_device(session()).sharing;
    if (sharing == cuda::Sharing::mpi)
        return mpi_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener);
    cuda::set_nccl_environment(true);
    static int meshes = 0;
    const bool copies =
        sharing == cuda::Sharing::peer || (sharing == cuda::Sharing::none && ++meshes % 2 == 0);
    const PeerAxes peer =
        copies ? cuda::choose_peer_axes(session(), plan.mesh, backend, {}) : PeerAxes{};
    return cuda::gpu_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener, peer);
}

bool holds_planned_messages() {
    // The plan does not include the messages of ranks that share a GPU.
    return false;
}

std::vector<MeshCase> tested_cases(std::int64_t ranks) {
    return covering(mesh_cases(ranks));
}

}  // namespace gptrain::test
