// Meshes of ranks whose messages go over stand-ins for NCCL and the CUDA runtime: each moves data
// only when computation waits for it, while the CPU computes at once.
#include "cuda/mesh/mesh.h"
#include "host_runtime.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    pace() = Pace::messages_late;
    issued().clear();
    return cuda::gpu_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener);
}

}  // namespace gptrain::test
