// Ranks on the CPU whose messages go over stand-ins for NCCL or for GPUs, for the meshes that cover
// everything.
#include "cpu/cpu_backend.h"
#include "mesh_run.h"
#include "ranks.h"

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

bool holds_planned_messages() {
    return false;
}

std::vector<MeshCase> tested_cases(std::int64_t ranks) {
    return covering(mesh_cases(ranks));
}

}  // namespace gptrain::test
