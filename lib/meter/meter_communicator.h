// The meter's communicator: any size, and no data moves. A listener counts what a rank would send
// (comm_listener.h).
#pragma once

#include <cstdint>
#include <memory>

#include "comm/host_memory.h"
#include "comm/mesh.h"
#include "meter/meter_backend.h"

namespace gptrain {

class MeterCommunicator final : public Communicator {
public:
    MeterCommunicator(int rank, int size) : rank_(rank), size_(size) {}

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    Pending all_reduce(const Tensor& x, Reduce reduce) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor&, const Tensor&, int) override { return {}; }
    Pending all_to_all(const Tensor&, const Tensor&) override { return {}; }
    Pending broadcast(const Tensor&, int) override { return {}; }
    Pending send(const Tensor&, int) override { return {}; }
    Pending recv(const Tensor&, int) override { return {}; }
    Pending send_recv(const Tensor&, int, const Tensor&, int) override { return {}; }
    void barrier() override {}

    /// As of an MpiCommunicator that needs no staging.
    std::int64_t held_bytes() const override { return memory_.held(); }

private:
    /// Holds host memory until the operation is waited for.
    Pending hold(std::int64_t bytes);

    int rank_;
    int size_;
    MeterBackend host_{BackendMemory{}};
    HostMemory memory_{host_};
};

/// Makes one for each group.
inline CommunicatorFactory meter_communicators() {
    return [](const RankGroup& group) {
        return std::make_unique<MeterCommunicator>(group.rank, group.size);
    };
}

}  // namespace gptrain
