// Communicators between GPUs: NCCL if every rank has its own GPU or GPTRAIN_SHARE_GPU=nccl, else
// MPI through host memory.
#include "cuda/cuda_backend.h"
#include "cuda/nccl/communicator.h"
#include "cuda/nccl/device_choice.h"
#include "cuda/nccl/mesh.h"
#include "cuda/runtime/probe.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

const cuda::ChosenDevice& device() {
    static const cuda::ChosenDevice chosen = cuda::choose_device(session());
    return chosen;
}

std::unique_ptr<Communicator> over_mpi(Backend& backend, bool staged) {
    return std::make_unique<MpiCommunicator>(session(),
                                             MpiGroup{.color = 0, .key = session().rank()}, backend,
                                             MpiOptions{.staged = staged});
}

/// Why the NCCL of this machine cannot be shared over as the environment asks; empty if it can.
std::string fault_of_nccl() {
    const bool shared = cuda::sharing_from_environment() == cuda::Sharing::nccl;
    return shared ? cuda::fault_of_shared_nccl() : std::string();
}

std::unique_ptr<Communicator> over_nccl(Backend& backend) {
    cuda::set_nccl_environment(true);
    auto all = std::make_shared<cuda::NcclCommunicators>(cuda::open_nccl(cuda::driver_version()));
    return std::make_unique<cuda::NcclCommunicator>(std::move(all), over_mpi(backend, false),
                                                    *cuda::compute_stream(backend), RankGroup{});
}

}  // namespace

std::unique_ptr<Backend> make_backend() {
    return cuda::make_backend(device().index, cuda::options_from_environment());
}

std::vector<Way> ways() {
    std::vector<Way> all = {{"staged", [](Backend& backend) { return over_mpi(backend, true); }}};
    if (device().sharing != cuda::Sharing::mpi) all.push_back({"NCCL", over_nccl});
    return all;
}

std::string why_not_run() {
    std::string reason = cuda::probe_device(0).reason;
    if (reason.empty()) reason = fault_of_nccl();
    // Ranks choose together, and all ranks are here.
    if (reason.empty()) device();
    return reason;
}

}  // namespace gptrain::test
