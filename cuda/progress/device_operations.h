// How far the device is with a rank's NCCL operations.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/comm_listener.h"
#include "cuda/progress/step_timer.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Forwards what the host does to another listener, and adds what the device does. The host issues
/// up to two steps of operations ahead of the device, so only the device knows which of them waits
/// for another rank.
///
/// NCCL starts an operation when the computation before it is done, the one before it on the same
/// communicator has finished, and all issued before it on any communicator have started (mesh.h).
class DeviceOperations final : public CommListener {
public:
    /// Both must outlive it.
    DeviceOperations(CommListener& listener, const Stream& compute)
        : listener_(listener), timer_(compute) {}

    /// Measures the steps on the device.
    StepTimer& timer() { return timer_; }

    /// From now on a thread polls, with this device current.
    void watch(int device);
    /// Call after issuing the operation last reported to on_started: it runs on the device between
    /// the events `ready` and `finished`. Neither event is re-recorded while it is held here.
    void add(std::shared_ptr<const Event> ready, std::shared_ptr<const Event> finished);
    /// Polls the device and notifies the listener of progress.
    void poll();

    void on_started(const CommCall& call) override;
    void on_issued(const CommCall& call) override { listener_.on_issued(call); }
    void on_waiting(const CommCall& call) override { listener_.on_waiting(call); }
    void on_finished(const CommCall& call) override { listener_.on_finished(call); }

private:
    struct Operation {
        CommCall call;
        std::shared_ptr<const Event> ready;
        std::shared_ptr<const Event> finished;
        bool has_started = false;
        bool has_finished = false;
    };
    /// True if any operation has started or finished.
    bool advance();

    CommListener& listener_;
    StepTimer timer_;
    std::optional<CommCall> last_;  ///< started by the host
    std::mutex mutex_;
    std::deque<Operation> operations_;  ///< from the first unfinished one on; under mutex_
    DeviceProgress progress_;           ///< under mutex_
    std::jthread thread_;               // last: it uses all members above
};

}  // namespace gptrain::cuda
