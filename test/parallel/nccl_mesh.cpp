// Meshes of ranks whose messages go over stand-ins for NCCL and the CUDA runtime: each moves data
// only when computation waits for it, while the CPU computes at once.
#include "cpu/cpu_backend.h"
#include "cuda/mesh/mesh.h"
#include "host_runtime.h"
#include "mesh_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"

namespace gptrain::test {

std::unique_ptr<Backend> make_backend() {
    return cpu::make_backend();
}

std::vector<Way> ways() {
    return {};
}

std::string why_not_run() {
    return {};
}

Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener) {
    pace() = Pace::messages_late;
    issued().clear();
    return cuda::gpu_mesh(session(), plan.mesh, mesh_connections(plan), backend, &listener);
}

bool holds_planned_messages() {
    return false;
}

std::vector<MeshCase> tested_cases(std::int64_t ranks) {
    return covering(mesh_cases(ranks));
}

}  // namespace gptrain::test
