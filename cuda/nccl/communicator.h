// Communication between GPUs: NCCL on its own stream.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "cuda/progress/device_operations.h"
#include "cuda/runtime/libraries.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

class NcclCommunicator;

/// NCCL, and the communicators of a rank, which end together: ncclCommAbort waits for the stream of
/// its communicator, where an operation may wait for one of another communicator
/// (https://github.com/NVIDIA/nccl/issues/829).
class NcclCommunicators {
public:
    explicit NcclCommunicators(const Nccl& nccl) : nccl_(nccl) {}

    const Nccl& nccl() const { return nccl_; }
    /// True if there is a communicator that has not been aborted.
    bool connected() const;
    /// Ends all operations, also those that hang. Any later use of a communicator is an Error.
    void abort() noexcept;
    /// Throws if an operation of any communicator has failed. For a host that waits for the device.
    void poll() const;
    /// Operations that have been issued and not waited for.
    std::int64_t in_flight() const { return in_flight_; }

private:
    friend class NcclCommunicator;
    const Nccl nccl_;
    std::vector<NcclCommunicator*> all_;  ///< that exist
    std::int64_t in_flight_ = 0;
};

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
/// network or of another rank. It then warns of the fault, aborts all communicators of this rank
/// and throws an Error: `hang` if a rank, its connection or a device was lost, `usage` if NCCL
/// cannot connect these ranks, otherwise `bug`. While the constructor connects the ranks, a fault
/// of the network or of a device is one of the machine's set-up, and `usage` as well. The warning
/// comes first because aborting may be slow.
class NcclCommunicator final : public Communicator {
public:
    /// `siblings` are this rank's communicators so far. `host` connects the same ranks through host
    /// memory. Computation is issued to `compute`, which outlives the communicator. `group`
    /// names the axis in messages. `operations`, if given, is notified of the device's progress.
    /// All ranks construct it together. The constructor connects them for the kinds of the group's
    /// traffic; operations of other kinds are refused.
    NcclCommunicator(std::shared_ptr<NcclCommunicators> siblings,
                     std::unique_ptr<Communicator> host, const Stream& compute,
                     const RankGroup& group,
                     std::shared_ptr<DeviceOperations> operations = nullptr);
    /// Aborts all siblings if an exception is in flight; otherwise waits for its operations and the
    /// other ranks.
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
    friend class NcclCommunicators;
    void connect();
    void warm_up();
    ExitCode exit_code_of(ncclResult_t status) const;
    /// Waits until NCCL has done what it only began in this call.
    void settle(ncclResult_t status, std::string_view call);
    void check(ncclResult_t status, std::string_view call);
    Pending issue(bool Traffic::*kind, std::string_view call, const auto& issue);
    std::shared_ptr<Event> free_event();

    const std::shared_ptr<NcclCommunicators> siblings_;
    const Nccl& nccl_;
    std::unique_ptr<Communicator> host_communicator_;
    const Stream& compute_;
    const std::string name_;
    const Axis axis_;
    const Traffic traffic_;
    const std::shared_ptr<DeviceOperations> operations_;
    bool connecting_ = true;
    Stream stream_{Stream::Priority::urgent};
    std::deque<std::shared_ptr<Event>> events_;  ///< the one used longest ago first
    ncclComm_t comm_ = nullptr;
};

}  // namespace gptrain::cuda
