// The second seam: messages between the ranks of one axis of the mesh. Model code calls collectives
// unconditionally; on an axis of size 1 they cost nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "tensor/tensor.h"

namespace gptrain {

/// An operation in progress. `wait` orders later computation after it without blocking the host;
/// until then, write nothing that it reads and use nothing that it writes. Dropping it waits.
class [[nodiscard]] Pending {
public:
    Pending() = default;
    explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
    Pending(Pending&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
    Pending& operator=(Pending&& other) noexcept {
        std::swap(wait_, other.wait_);
        return *this;
    }
    ~Pending() { wait(); }

    void wait() {
        if (const auto waiting = std::exchange(wait_, nullptr)) waiting();
    }

private:
    std::function<void()> wait_;
};

enum class Reduce { sum, max };

/// The kinds of messages between the ranks of a communicator. Each kind that is connected takes
/// device memory, so only those in use are connected (with NCCL_RUNTIME_CONNECT=0, NCCL connects
/// all collectives anyway).
struct Traffic {
    bool collectives = true;  ///< all_reduce, reduce_scatter, all_gather, broadcast
    bool ring = true;         ///< send_recv to the next rank, from the previous one
    bool all_pairs = true;    ///< all_to_all
    bool one_way = true;      ///< send from rank 0 to rank 1
    bool any() const { return collectives || ring || all_pairs || one_way; }
    bool operator==(const Traffic&) const = default;
};

/// The ranks of one axis. All of them issue the same operations in the same order. An operation
/// starts after the computation already issued. Shapes are the same on all ranks. Tensors are
/// contiguous, except along a given dim. Sizes may exceed 2^31.
class Communicator {
public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;

    /// x = the reduction of all ranks' x, in place.
    virtual Pending all_reduce(const Tensor& x, Reduce reduce) = 0;
    /// `to` = this rank's part, along `dim`, of the sum of all ranks' `from`.
    virtual Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) = 0;
    /// `to` = all ranks' `from`, concatenated along `dim`. `from` may be this rank's part of `to`.
    virtual Pending all_gather(const Tensor& to, const Tensor& from, int dim) = 0;
    /// Part i of `to` along dim 0 = this rank's part of rank i's `from`.
    virtual Pending all_to_all(const Tensor& to, const Tensor& from) = 0;
    /// The same, but only some rows need to arrive. `from` and `to` are [ranks, C, W], `slots` is
    /// i32 [ranks, C] in the memory of the computation: row i of part r is sent where slots[r, i]
    /// >= 0. What arrives in place of the others is not defined. A communicator that needs sizes on
    /// the host sends all rows.
    virtual Pending all_to_all_rows(const Tensor& to, const Tensor& from, const Tensor& slots) {
        static_cast<void>(slots);
        return all_to_all(to, from);
    }
    virtual Pending broadcast(const Tensor& x, int root) = 0;
    virtual Pending send(const Tensor& x, int to) = 0;
    virtual Pending recv(const Tensor& x, int from) = 0;
    /// Sends and receives at the same time, for rings and neighbours.
    virtual Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) = 0;
    virtual void barrier() = 0;

    /// Host memory that it has allocated for its operations.
    virtual std::int64_t held_bytes() const { return 0; }
};

/// The only rank of an axis of size 1. No data moves; gather and scatter require the same memory on
/// both sides (callers pass their tensor for both).
class OneRankCommunicator : public Communicator {
public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    Pending all_reduce(const Tensor& x, Reduce reduce) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_to_all(const Tensor& to, const Tensor& from) override;
    Pending broadcast(const Tensor& x, int root) override;
    Pending send(const Tensor& x, int to) override;
    Pending recv(const Tensor& x, int from) override;
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override;
    void barrier() override {}
};

}  // namespace gptrain
