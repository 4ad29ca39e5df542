// What stands for cuda/ in a program that is built without it.
#include "cuda/cuda_backend.h"
#include "cuda/nccl/device_choice.h"
#include "cuda/nccl/mesh.h"
#include "cuda/runtime/probe.h"

namespace gptrain {

CudaProbe probe_cuda(int /*device*/) {
    return {CudaState::not_built, "this program is not built with CUDA"};
}

CudaOptions options_of_environment() {
    return {};
}

std::unique_ptr<Backend> make_cuda_backend(int device, const CudaOptions& /*options*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_cuda(device).why);
}

const cuda::Stream* compute_stream(const Backend& /*backend*/) {
    return nullptr;
}

namespace cuda {

ChosenDevice choose_device(const MpiSession& /*session*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_cuda(0).why);
}

void set_nccl_environment(bool /*deterministic*/) {}

Mesh nccl_mesh(const MpiSession& /*session*/, const MeshShape& /*shape*/,
               const MeshLinks& /*links*/, Backend& /*backend*/, CommListener* /*listener*/) {
    fail(ExitCode::usage, "device: cuda: ", probe_cuda(0).why);
}

}  // namespace cuda
}  // namespace gptrain
