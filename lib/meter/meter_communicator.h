// The communicator of the meter: any size, moves nothing, counts the bytes that a rank would send.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace gptrain {

/// Bytes are what a ring sends from each rank: n (p - 1) / p for gathering, scattering and
/// all-to-all of n bytes in all, twice that for an all-reduce, n for a message or a broadcast.
class MeterCommunicator : public Communicator {
public:
    /// Adds to `bytes`, which must outlive it.
    MeterCommunicator(int rank, int size, std::int64_t& bytes)
        : rank_(rank), size_(size), bytes_(bytes) {}

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    Pending all_reduce(const Tensor& x, Reduce how) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_to_all(const Tensor& to, const Tensor& from) override;
    Pending broadcast(const Tensor& x, int root) override;
    Pending send(const Tensor& x, int to) override;
    Pending recv(const Tensor& x, int from) override;
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override;
    void barrier() override {}

private:
    Pending ring(const Tensor& whole, int passes);

    int rank_;
    int size_;
    std::int64_t& bytes_;
};

}  // namespace gptrain
