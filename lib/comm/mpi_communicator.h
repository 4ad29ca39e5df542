// The communicator over MPI. Every collective consists of point-to-point messages, and sums are
// computed here, in rank order: they depend on the ranks' values only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The ranks of a communicator: those of the same color, in the order of keys.
struct MpiGroup {
    int color = 0;
    int key = 0;
};

struct MpiOptions {
    /// For error messages.
    std::string name = "world";
    /// Operations of other kinds are refused.
    Traffic traffic = {};
    /// True if MPI cannot access the tensors' memory. They then pass through the backend's host
    /// memory, and the host waits for the device at the start and end of each operation.
    bool staged = false;
    /// Size limit of an MPI message, in bytes; longer ones are split.
    std::int64_t message_bytes = std::int64_t{1} << 30;
};

/// Bytes that one of p ranks sends, with n bytes in the larger tensor: all_reduce 2 n (p - 1) / p
/// in two rounds; reduce_scatter, all_gather and all_to_all n (p - 1) / p in one; broadcast at most
/// ceil(log2(p)) messages of n. A reduction (reduce_runs) holds another n (p - 1) / p bytes of the
/// backend's host memory until it is waited for; memory is kept for reuse. `to` of a reduce_scatter
/// may be this rank's part of `from`. Operations progress while the host is inside a call of any
/// communicator of the session.
///
/// Pending: after `wait` the results are visible to the backend's later operations. A Pending
/// dropped during exception unwinding is not waited for, because all ranks are about to be ended.
class MpiCommunicator final : public Communicator {
public:
    /// All ranks of the world construct it together. The session and the backend must outlive it.
    MpiCommunicator(const MpiSession& session, const MpiGroup& group, Backend& backend,
                    const MpiOptions& options = {});
    ~MpiCommunicator() override;

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    Pending all_reduce(const Tensor& x, Reduce reduce) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_to_all(const Tensor& to, const Tensor& from) override;
    Pending broadcast(const Tensor& x, int root) override;
    Pending send(const Tensor& x, int to) override;
    Pending recv(const Tensor& x, int from) override;
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override;
    void barrier() override;

    /// Host memory held for staging and reductions. It depends only on the operations and the order
    /// in which they are waited for.
    std::int64_t held_bytes() const override;
    /// Bytes that this rank has sent in finished operations.
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
