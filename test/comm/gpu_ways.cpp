// Communicators between GPUs: MPI through host memory always; NCCL and copies if every rank has its
// own GPU; NCCL with GPTRAIN_SHARE_GPU=nccl; copies with GPTRAIN_SHARE_GPU=peer.
#include "cuda/cuda_backend.h"
#include "cuda/mesh/device_choice.h"
#include "cuda/mesh/mesh.h"
#include "cuda/mesh/peers.h"
#include "cuda/nccl/communicator.h"
#include "cuda/peer/communicator.h"
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

std::unique_ptr<Communicator> by_copies(Backend& backend) {
    return std::make_unique<cuda::PeerCommunicator>(
        std::make_shared<cuda::PeerCommunicators>(), over_mpi(backend, false),
        *cuda::compute_stream(backend), RankGroup{}, cuda::run_name(session()));
}

/// True if the GPUs of all ranks can copy into each other's memory.
bool are_peers(Backend& backend) {
    static const bool one_node = session().local_size() == session().size();
    static const bool can = session().size() > 1 && session().max(one_node ? 0 : 1) == 0 &&
                            cuda::fault_of_peers(session(), backend).empty();
    return can;
}

}  // namespace

std::unique_ptr<Backend> make_backend() {
    return cuda::make_backend(device().index, cuda::options_from_environment());
}

std::vector<Way> ways() {
    std::vector<Way> all = {{"staged", [](Backend& backend) { return over_mpi(backend, true); }}};
    const cuda::Sharing sharing = device().sharing;
    const bool alone = sharing == cuda::Sharing::none;
    if (alone || sharing == cuda::Sharing::nccl) all.push_back({"NCCL", over_nccl});
    if (sharing == cuda::Sharing::peer || (alone && are_peers(*make_backend())))
        all.push_back({"peers", by_copies});
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
