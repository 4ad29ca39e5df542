#include "cuda/nccl/mesh.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "base/log.h"
#include "comm/mpi_mesh.h"
#include "cuda/cuda_backend.h"
#include "cuda/nccl/communicator.h"
#include "cuda/nccl/device_operations.h"
#include "cuda/runtime/probe.h"

namespace gptrain::cuda {

void set_nccl_environment(bool deterministic) {
    constexpr int only_if_not_set = 0;
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", only_if_not_set);
    if (deterministic) {
        setenv("NCCL_ALGO", "Ring", only_if_not_set);
    } else {
        // All algorithms take their memory when ranks connect, before memory is planned, and not
        // when the first large message chooses one of them.
        setenv("NCCL_RUNTIME_CONNECT", "0", only_if_not_set);
    }
}

Mesh nccl_mesh(const MpiSession& session, const MeshShape& shape,
               const MeshConnections& connections, Backend& backend, CommListener* listener) {
    check_mesh_fits(session, shape);
    if (shape.size() == 1) return one_rank_mesh();
    const Stream* compute = compute_stream(backend);
    GPTRAIN_CHECK(compute != nullptr, "NCCL for the backend ", backend.name());
    std::shared_ptr<NcclCommunicators> all;
    session.run_on_all(
        [&] { all = std::make_shared<NcclCommunicators>(open_nccl(driver_version())); });
    const CommunicatorFactory hosts = mpi_communicators(session, backend);
    std::shared_ptr<DeviceOperations> operations;
    if (listener != nullptr) {
        operations = std::make_shared<DeviceOperations>(*listener, *compute);
        operations->watch(device_index(backend));
        listener->on_timer(operations->timer());
    }
    const auto connect = [&](const RankGroup& group) -> std::unique_ptr<Communicator> {
        RankGroup on_host = group;
        on_host.traffic = {};
        auto host = hosts(on_host);
        if (group.size == 1) return host;
        return std::make_unique<NcclCommunicator>(all, std::move(host), *compute, group,
                                                  operations);
    };
    CommunicatorFactory make = connect;
    if (listener != nullptr) {
        make = [&, index = 0](const RankGroup& group) mutable {
            // Ranks that are not here yet have started fewer operations.
            const CommCall call = {
                .axis = group.axis, .communicator = index++, .operation = "connect"};
            listener->on_started(call);
            listener->on_waiting(call);
            auto made = connect(group);
            listener->on_finished(call);
            return made;
        };
        make = observed(std::move(make), *operations);
    }
    Mesh mesh(shape, place_of(session.rank(), shape), connections, make);
    mesh.warm_up();
    mesh.set_abort([all](std::string_view why) {
        if (!all->connected()) return;
        warn(why, "; this rank aborts its communicators");
        all->abort();
    });
    // The backend outlives the mesh, after which there are none.
    set_wait_callback(backend, [all] { all->poll(); });
    return mesh;
}

}  // namespace gptrain::cuda
