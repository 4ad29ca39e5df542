// The communicator of the meter: any size, and nothing is ever moved. What a rank would send is
// counted by who listens (comm_listener.h).
#pragma once

#include <memory>

#include "comm/mesh.h"

namespace gptrain {

class MeterCommunicator final : public Communicator {
public:
    MeterCommunicator(int rank, int size) : rank_(rank), size_(size) {}

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    Pending all_reduce(const Tensor&, Reduce) override { return {}; }
    Pending reduce_scatter(const Tensor&, const Tensor&, int) override { return {}; }
    Pending all_gather(const Tensor&, const Tensor&, int) override { return {}; }
    Pending all_to_all(const Tensor&, const Tensor&) override { return {}; }
    Pending broadcast(const Tensor&, int) override { return {}; }
    Pending send(const Tensor&, int) override { return {}; }
    Pending recv(const Tensor&, int) override { return {}; }
    Pending send_recv(const Tensor&, int, const Tensor&, int) override { return {}; }
    void barrier() override {}

private:
    int rank_;
    int size_;
};

/// One for each group.
inline CommunicatorFactory meter_communicators() {
    return [](const RankGroup& group) {
        return std::make_unique<MeterCommunicator>(group.rank, group.size);
    };
}

}  // namespace gptrain
