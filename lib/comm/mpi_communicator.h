// The communicator over MPI. Every collective is messages between pairs of ranks, and sums are made
// here, in the order of ranks: they depend on nothing but the ranks' values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// Which ranks of the world form a communicator: those of the same color, in the order of keys.
struct MpiGroup {
    int color = 0;
    int key = 0;
};

struct MpiOptions {
    /// For messages of errors.
    std::string name = "world";
    /// Whether tensors lie in memory that MPI cannot reach. They then go through host memory of the
    /// backend, and the host waits for the device when an operation is started and when it ends.
    bool staged = false;
    /// A message of MPI has at most this many bytes; longer ones are sent in pieces.
    std::int64_t message_bytes = std::int64_t{1} << 30;
};

/// What a rank sends of n bytes (of the larger tensor) among p ranks: all_reduce 2 n (p - 1) / p in
/// two rounds, reduce_scatter, all_gather and all_to_all n (p - 1) / p in one, broadcast at most
/// log2(p) messages of n. Reductions hold n (p - 1) / p bytes more of the backend's host memory
/// (see reduce_runs for how they are done) until they are waited for; memory that was needed once
/// is kept for the next time. `to` of a reduce_scatter may be this rank's part of `from`.
/// Operations go on while the host is inside any call of any communicator of the session.
///
/// Pending: `wait` ends with the results in place for the operations of the backend. One that is
/// dropped while an exception flies is not waited for: the ranks are to be ended.
class MpiCommunicator final : public Communicator {
public:
    /// All ranks of the world make it together. The session and the backend outlive it.
    MpiCommunicator(const MpiSession& session, const MpiGroup& group, Backend& backend,
                    const MpiOptions& options = {});
    ~MpiCommunicator() override;

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
    void barrier() override;

    /// Host memory that it holds for staging and reductions: with the same operations, waited for
    /// in the same order, always the same.
    std::int64_t held_bytes() const override;
    /// Bytes that this rank has sent in operations that are over.
    std::int64_t sent_bytes() const;

private:
    struct State;
    class Transfer;

    void check_rank(int rank) const;
    void check_parts(const Tensor& part, const Tensor& all, int dim) const;

    std::unique_ptr<State> state_;
    int rank_ = 0;
    int size_ = 1;
};

}  // namespace gptrain
