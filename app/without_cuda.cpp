// Replaces cuda/ in a program built without it.
#include "cuda/cuda_backend.h"
#include "cuda/mesh/device_choice.h"
#include "cuda/mesh/mesh.h"
#include "cuda/mesh/peers.h"
#include "cuda/runtime/probe.h"
#include "cuda/runtime/versions.h"

namespace gptrain::cuda {

void set_cuda_environment() {}

DeviceProbe probe_device(int /*device*/) {
    return {DeviceState::not_built, "this program was built without CUDA"};
}

std::string device_name(int /*device*/) {
    return "";
}

std::string driver_text() {
    return "";
}

std::string library_versions() {
    return "";
}

Options options_from_environment() {
    return {};
}

std::unique_ptr<Backend> make_backend(int device, const Options& /*options*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_device(device).reason);
}

std::string attention_fault(int device) {
    fail(ExitCode::usage, "check-attention: ", probe_device(device).reason);
}

int device_of_rank(const MpiSession& /*session*/) {
    return 0;
}

ChosenDevice choose_device(const MpiSession& /*session*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_device(0).reason);
}

void set_nccl_environment(bool /*deterministic*/) {}

Mesh gpu_mesh(const MpiSession& /*session*/, const MeshShape& /*shape*/,
              const MeshConnections& /*connections*/, Backend& /*backend*/,
              CommListener* /*listener*/, const PeerAxes& /*peer*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_device(0).reason);
}

PeerAxes choose_peer_axes(const MpiSession& /*session*/, const MeshShape& /*shape*/,
                          Backend& /*backend*/, const std::optional<PeerAxes>& /*saved*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_device(0).reason);
}

}  // namespace gptrain::cuda
