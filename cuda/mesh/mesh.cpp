#include "cuda/mesh/mesh.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "comm/message_blocks.h"
#include "comm/mpi_mesh.h"
#include "comm/peer_axes.h"
#include "cuda/cuda_backend.h"
#include "cuda/mesh/peers.h"
#include "cuda/mesh/start_checks.h"
#include "cuda/nccl/communicator.h"
#include "cuda/peer/communicator.h"
#include "cuda/progress/device_operations.h"
#include "cuda/runtime/libraries.h"
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

/// Makes the communicators of a rank, and ends them together.
class GpuMessages {
public:
    GpuMessages(const MpiSession& session, Backend& backend, const PeerAxes& peer)
        : session_(session),
          backend_(backend),
          compute_(compute_stream(backend)),
          hosts_(mpi_communicators(session, backend)),
          peer_(peer),
          name_(run_name(session)) {
        GPTRAIN_CHECK(compute_ != nullptr, "messages of GPUs for the backend ", backend.name());
    }

    const Stream& compute() const { return *compute_; }

    /// NCCL is opened for the first group that needs it, by all ranks together.
    std::unique_ptr<Communicator> connect(const RankGroup& group,
                                          const std::shared_ptr<DeviceOperations>& operations) {
        const int index = groups_++;
        const bool copies = contains(peer_, group.axis);
        const bool any = session_.max(group.size > 1 ? 1 : 0) > 0;
        if (any && !copies && !nccl_) open();
        if (any && !contains(connected_, group.axis)) connected_.push_back(group.axis);
        RankGroup on_host = group;
        on_host.traffic = {};
        auto host = hosts_(on_host);
        if (group.size == 1) return host;
        if (copies) {
            ++peer_groups_;
            return std::make_unique<PeerCommunicator>(peers_, std::move(host), compute(), group,
                                                      text(name_, "-", index, "-", group.id),
                                                      operations);
        }
        held_.push_back({group.axis, most_blocks(group.axis)});
        return std::make_unique<NcclCommunicator>(nccl_, std::move(host), compute(), group,
                                                  operations);
    }

    /// Checks of a mesh whose communicators have all been made.
    void check() const {
        DeviceProperties own;
        session_.run_on_all([&] { own = open_device(device_index(backend_)); });
        const std::vector<std::string> devices = session_.exchange(own.uuid);
        session_.run_on_all([&] {
            check_multiprocessors(held_, std::ranges::count(devices, own.uuid),
                                  own.multiprocessors);
        });
        const auto queues = number_in_environment("CUDA_DEVICE_MAX_CONNECTIONS");
        if (queues) {
            warn_of(queue_warning({.nccl = std::ssize(held_), .peer = peer_groups_}, *queues),
                    session_);
        }
    }

    std::string line() const {
        return messages_line(connected_, peer_, nccl_ ? nccl_version_text(version_) : "");
    }

    void abort(std::string_view why) {
        if (!peers_->connected() && !(nccl_ && nccl_->connected())) return;
        warn(why, "; this rank aborts its communicators");
        {
            // NCCL waits for its streams, which may wait for copies.
            const std::jthread release([this](const std::stop_token& stop) {
                while (!stop.stop_requested()) {
                    peers_->release();
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                }
            });
            if (nccl_) nccl_->abort();
        }
        peers_->abort();
    }

    void poll() const {
        if (nccl_) nccl_->poll();
        peers_->poll();
    }

    /// Messages that hold multiprocessors.
    bool in_flight() const { return nccl_ && nccl_->in_flight() > 0; }

private:
    void open() {
        session_.run_on_all([&] {
            nccl_ = std::make_shared<NcclCommunicators>(open_nccl(driver_version()));
            nccl_->nccl().get_version(&version_);
        });
        check_same_nccl(session_, version_);
    }

    const MpiSession& session_;
    Backend& backend_;
    const Stream* compute_;
    const CommunicatorFactory hosts_;
    const PeerAxes peer_;
    const std::string name_;
    std::shared_ptr<NcclCommunicators> nccl_;
    int version_ = 0;
    const std::shared_ptr<PeerCommunicators> peers_ = std::make_shared<PeerCommunicators>();
    int groups_ = 0;
    std::int64_t peer_groups_ = 0;
    std::vector<Axis> connected_;
    std::vector<HeldBlocks> held_;
};

}  // namespace

Mesh gpu_mesh(const MpiSession& session, const MeshShape& shape, const MeshConnections& connections,
              Backend& backend, CommListener* listener, const PeerAxes& peer) {
    check_mesh_fits(session, shape);
    if (shape.size() == 1) return one_rank_mesh();
    const auto messages = std::make_shared<GpuMessages>(session, backend, peer);
    if (shape.tensor > 1) warn_of(placement_warning(session.exchange(host_name()), shape), session);
    std::shared_ptr<DeviceOperations> operations;
    if (listener != nullptr) {
        operations = std::make_shared<DeviceOperations>(*listener, messages->compute());
        operations->watch(device_index(backend));
        listener->on_timer(operations->timer());
    }
    CommunicatorFactory make = [&](const RankGroup& group) {
        return messages->connect(group, operations);
    };
    if (listener != nullptr) {
        make = [&, connect = make, index = 0](const RankGroup& group) mutable {
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
    messages->check();
    if (session.rank() == 0) print(messages->line());
    mesh.set_abort([messages](std::string_view why) { messages->abort(why); });
    // The backend outlives the mesh, after which there are none.
    set_wait_callback(backend, [messages] { messages->poll(); });
    set_messages_in_flight(backend, [messages] { return messages->in_flight(); });
    return mesh;
}

}  // namespace gptrain::cuda
