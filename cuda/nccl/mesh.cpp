#include "cuda/nccl/mesh.h"

#include <cstdlib>
#include <vector>

#include "comm/mpi_mesh.h"
#include "cuda/cuda_backend.h"
#include "cuda/nccl/communicator.h"

namespace gptrain::cuda {

void set_nccl_environment(bool deterministic) {
    constexpr int only_if_not_set = 0;
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", only_if_not_set);
    if (deterministic) setenv("NCCL_ALGO", "Ring", only_if_not_set);
}

Mesh nccl_mesh(const MpiSession& session, const MeshShape& shape,
               const MeshConnections& connections, Backend& backend, CommListener* listener) {
    check_mesh_fits(session, shape);
    if (shape.size() == 1) return one_rank_mesh();
    const Stream* compute = compute_stream(backend);
    GPTRAIN_CHECK(compute != nullptr, "NCCL for the backend ", backend.name());
    Nccl nccl{};
    session.run_on_all([&] { nccl = open_nccl(); });
    const CommunicatorFactory hosts = mpi_communicators(session, backend);
    std::vector<NcclCommunicator*> all;
    CommunicatorFactory make = [&](const RankGroup& group) -> std::unique_ptr<Communicator> {
        auto host = hosts(group);
        if (group.size == 1) return host;
        auto made = std::make_unique<NcclCommunicator>(nccl, std::move(host), *compute,
                                                       std::string(name_of(group.axis)));
        all.push_back(made.get());
        return made;
    };
    if (listener != nullptr) make = observed(std::move(make), *listener);
    Mesh mesh(shape, place_of(session.rank(), shape), connections, make);
    mesh.warm_up();
    set_wait_callback(backend, [all] {
        for (NcclCommunicator* communicator : all)
            communicator->poll();
    });
    return mesh;
}

}  // namespace gptrain::cuda
