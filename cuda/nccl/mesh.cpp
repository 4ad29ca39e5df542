#include "cuda/nccl/mesh.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "comm/message_blocks.h"
#include "comm/mpi_mesh.h"
#include "cuda/cuda_backend.h"
#include "cuda/nccl/communicator.h"
#include "cuda/nccl/device_operations.h"
#include "cuda/nccl/start_checks.h"
#include "cuda/runtime/probe.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {
namespace {

constexpr int only_if_not_set = 0;

}  // namespace

void set_nccl_environment(bool deterministic) {
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", only_if_not_set);
    if (deterministic) {
        setenv("NCCL_ALGO", "Ring", only_if_not_set);
        // NCCL sets up sums in NVLink switches even where rings never use them. Containers without
        // access to the switches, and unhealthy ones, would then fail or hang at the start.
        setenv("NCCL_NVLS_ENABLE", "0", only_if_not_set);
    } else {
        // All algorithms take their memory when ranks connect, before memory is planned, and not
        // when the first large message chooses one of them.
        setenv("NCCL_RUNTIME_CONNECT", "0", only_if_not_set);
    }
}

void set_shared_nccl_environment() {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", only_if_not_set);
    setenv("NCCL_NVLS_ENABLE", "0", only_if_not_set);
    setenv("NCCL_MAX_CTAS", "2", only_if_not_set);
}

namespace {

/// The number in an environment variable; nothing if there is none.
std::optional<std::int64_t> number_in_environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : parse_int(value);
}

/// NCCL takes the user's number in place of ours.
int most_blocks(Axis axis) {
    const auto of_user = number_in_environment("NCCL_MAX_CTAS");
    return of_user && *of_user > 0 ? narrow<int>(*of_user) : most_message_blocks(axis);
}

void warn_of(const std::string& fault, const MpiSession& session) {
    if (!fault.empty() && session.rank() == 0) warn(fault);
}

void check_start(const MpiSession& session, const std::vector<HeldBlocks>& held, int device) {
    DeviceProperties own;
    session.run_on_all([&] { own = open_device(device); });
    const std::vector<std::string> devices = session.exchange(own.uuid);
    session.run_on_all([&] {
        check_multiprocessors(held, std::ranges::count(devices, own.uuid), own.multiprocessors);
    });
    const auto queues = number_in_environment("CUDA_DEVICE_MAX_CONNECTIONS");
    if (queues) warn_of(queue_warning(std::ssize(held), *queues), session);
}

}  // namespace

Mesh nccl_mesh(const MpiSession& session, const MeshShape& shape,
               const MeshConnections& connections, Backend& backend, CommListener* listener) {
    check_mesh_fits(session, shape);
    if (shape.size() == 1) return one_rank_mesh();
    const Stream* compute = compute_stream(backend);
    GPTRAIN_CHECK(compute != nullptr, "NCCL for the backend ", backend.name());
    std::shared_ptr<NcclCommunicators> all;
    int version = 0;
    session.run_on_all([&] {
        all = std::make_shared<NcclCommunicators>(open_nccl(driver_version()));
        all->nccl().get_version(&version);
    });
    check_same_nccl(session, version);
    if (shape.tensor > 1) warn_of(placement_warning(session.exchange(host_name()), shape), session);
    const CommunicatorFactory hosts = mpi_communicators(session, backend);
    std::shared_ptr<DeviceOperations> operations;
    if (listener != nullptr) {
        operations = std::make_shared<DeviceOperations>(*listener, *compute);
        operations->watch(device_index(backend));
        listener->on_timer(operations->timer());
    }
    std::vector<HeldBlocks> held;
    const auto connect = [&](const RankGroup& group) -> std::unique_ptr<Communicator> {
        RankGroup on_host = group;
        on_host.traffic = {};
        auto host = hosts(on_host);
        if (group.size == 1) return host;
        held.push_back({group.axis, most_blocks(group.axis)});
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
    check_start(session, held, device_index(backend));
    mesh.set_abort([all](std::string_view why) {
        if (!all->connected()) return;
        warn(why, "; this rank aborts its communicators");
        all->abort();
    });
    // The backend outlives the mesh, after which there are none.
    set_wait_callback(backend, [all] { all->poll(); });
    set_messages_in_flight(backend, [all] { return all->in_flight() > 0; });
    return mesh;
}

}  // namespace gptrain::cuda
