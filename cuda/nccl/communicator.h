// The communicator between GPUs: NCCL, on a stream of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "cuda/runtime/libraries.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Operations run on their own stream: each after all computation issued before it, and computation
/// issued after its `wait` comes after it; the host waits for neither. Tensors lie in memory of the
/// device that was current when the communicator was made.
///
/// The operations of a rank run one after the other: a `recv` must not be issued before a `send`
/// that its sender waits for; rings and neighbours use send_recv. Sums are made in the dtype, in an
/// order that NCCL chooses from the size and the machines' wiring.
///
/// Faults of the network or of another rank are noticed at the next call of the communicator or of
/// a `wait`: the communicator is then aborted, which ends what hangs in its stream, and the Error
/// is thrown (hang where a rank or its connection was lost, else bug).
class NcclCommunicator final : public Communicator {
public:
    /// `hosts` connects the same ranks over host memory; computation is issued to `compute`, which
    /// outlives the communicator. All ranks make it together, and it is used once.
    NcclCommunicator(const Nccl& nccl, std::unique_ptr<Communicator> hosts, const Stream& compute,
                     std::string name);
    /// While an exception flies it aborts; else it waits for its operations and the other ranks.
    ~NcclCommunicator() override;

    int rank() const override { return hosts_->rank(); }
    int size() const override { return hosts_->size(); }
    Pending all_reduce(const Tensor& x, Reduce how) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_to_all(const Tensor& to, const Tensor& from) override;
    Pending broadcast(const Tensor& x, int root) override;
    Pending send(const Tensor& x, int to) override;
    Pending recv(const Tensor& x, int from) override;
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override;
    /// Of the hosts; says nothing of the devices.
    void barrier() override { hosts_->barrier(); }

    /// Throws where an operation has failed since. For a host that waits for the device.
    void poll();

private:
    ncclComm_t connect();
    void use_once();
    void check(ncclResult_t status, std::string_view call);
    void abort() noexcept;
    template <class Issue>
    Pending issue(std::string_view call, const Issue& issue);
    std::shared_ptr<Event> free_event();

    const Nccl nccl_;
    std::unique_ptr<Communicator> hosts_;
    const Stream& compute_;
    const std::string name_;
    Stream stream_;
    Event computed_;
    std::vector<std::shared_ptr<Event>> events_;  ///< not in use
    ncclComm_t comm_ = nullptr;
};

}  // namespace gptrain::cuda
