// Meshes of ranks whose messages are copies between stand-ins for GPUs, or, for gradients of every
// second mesh, go over a stand-in for NCCL. Each moves data only when computation waits for it,
// while the CPU computes at once.
#include "comm/peer_axes.h"
#include "cuda/mesh/mesh.h"
#include "cuda/mesh/peers.h"
#include "host_runtime.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    pace() = Pace::messages_late;
    issued().clear();
    static int meshes = 0;
    PeerAxes peer = cuda::choose_peer_axes(session(), plan.mesh, backend, {});
    // Gradients in turn: the stand-in for NCCL blocks the host while it waits, so messages in the
    // middle of a step could not go over both.
    if (++meshes % 2 == 0) std::erase(peer, Axis::dp_cp);
    return cuda::gpu_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener, peer);
}

}  // namespace gptrain::test
