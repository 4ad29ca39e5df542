// Communication between GPUs: NCCL on its own stream.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "cuda/nccl/device_operations.h"
#include "cuda/runtime/libraries.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Operations run on their own stream. Each starts after all computation issued before it;
/// computation issued after its `wait` runs after it; the host waits for neither. Tensors are in
/// memory of the device that was current at construction.
///
/// A rank's operations run one after the other: do not issue a `recv` before a `send` that its
/// sender waits for; rings and neighbours use send_recv. NCCL adds in the tensors' dtype, in an
/// order that it chooses from the size and the network topology.
///
/// NCCL does not block the host while it connects ranks: the host asks it whether it is done, or
/// another rank was lost. The next call of the communicator or of a `wait` detects faults of the
/// network or of another rank. The communicator then aborts, which ends operations that hang in its
/// stream, and throws an Error: `hang` if a rank or its connection was lost, otherwise `bug`.
class NcclCommunicator final : public Communicator {
public:
    /// `host` connects the same ranks through host memory. Computation is issued to `compute`,
    /// which outlives the communicator. `operations`, if given, learns how far the device is. All
    /// ranks construct it together; the constructor runs each operation once.
    NcclCommunicator(const Nccl& nccl, std::unique_ptr<Communicator> host, const Stream& compute,
                     std::string name, std::shared_ptr<DeviceOperations> operations = nullptr);
    /// Aborts if an exception is in flight; otherwise waits for its operations and the other ranks.
    ~NcclCommunicator() override;

    int rank() const override { return host_communicator_->rank(); }
    int size() const override { return host_communicator_->size(); }
    Pending all_reduce(const Tensor& x, Reduce reduce) override;
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override;
    Pending all_to_all(const Tensor& to, const Tensor& from) override;
    Pending broadcast(const Tensor& x, int root) override;
    Pending send(const Tensor& x, int to) override;
    Pending recv(const Tensor& x, int from) override;
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override;
    /// A barrier among the hosts; it does not wait for the devices.
    void barrier() override { host_communicator_->barrier(); }

    /// Throws if an operation has failed. For a host that waits for the device.
    void poll();

private:
    void connect();
    void warm_up();
    /// Waits until NCCL has done what it only began in this call.
    void settle(ncclResult_t status, std::string_view call);
    void check(ncclResult_t status, std::string_view call);
    void abort() noexcept;
    template <class Issue>
    Pending issue(std::string_view call, const Issue& issue);
    std::shared_ptr<Event> free_event();

    const Nccl nccl_;
    std::unique_ptr<Communicator> host_communicator_;
    const Stream& compute_;
    const std::string name_;
    const std::shared_ptr<DeviceOperations> operations_;
    Stream stream_{Stream::Priority::urgent};
    std::deque<std::shared_ptr<Event>> events_;  ///< the one used longest ago first
    ncclComm_t comm_ = nullptr;
};

}  // namespace gptrain::cuda
