#include "cuda/progress/device_operations.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <vector>

namespace gptrain::cuda {

void DeviceOperations::watch(int device) {
    thread_ = std::jthread([this, device](const std::stop_token& stop) {
        constexpr std::chrono::milliseconds period(20);
        std::mutex mutex;
        std::condition_variable_any changed;
        std::unique_lock lock(mutex);
        try {
            open_device(device);
            while (!stop.stop_requested()) {
                poll();
                timer_.collect_if_free();
                changed.wait_for(lock, stop, period, [] { return false; });
            }
        } catch (const Error&) {
            // The host finds the device's fault as well, and reports it.
        }
    });
}

void DeviceOperations::on_started(const CommCall& call) {
    last_ = call;
    listener_.on_started(call);
}

void DeviceOperations::add(std::shared_ptr<const Event> ready,
                           std::shared_ptr<const Event> finished) {
    if (!last_) return;
    const std::lock_guard lock(mutex_);
    operations_.push_back({*last_, std::move(ready), std::move(finished)});
}

bool DeviceOperations::advance() {
    bool advanced = false;
    std::vector<int> occupied;  // communicators
    for (Operation& operation : operations_) {
        const int communicator = operation.call.communicator;
        if (operation.has_finished) continue;
        if (!operation.has_started) {
            const bool waits_for_own =
                std::find(occupied.begin(), occupied.end(), communicator) != occupied.end();
            if (waits_for_own || !operation.ready->done()) break;
            operation.has_started = advanced = true;
            if (communicator < axes)
                progress_.started[static_cast<std::size_t>(communicator)] = operation.call.number;
        }
        operation.has_finished = operation.finished->done();
        advanced = advanced || operation.has_finished;
        if (!operation.has_finished) occupied.push_back(communicator);
    }
    // Operations that finished before an earlier one stay until that one has.
    while (!operations_.empty() && operations_.front().has_finished)
        operations_.pop_front();
    return advanced;
}

void DeviceOperations::poll() {
    DeviceProgress now;
    {
        const std::lock_guard lock(mutex_);
        const bool advanced = advance();
        const std::int64_t before = progress_.unfinished;
        progress_.unfinished = std::ssize(operations_);
        // Newly issued operations are no progress, except that the device is no longer done.
        if (!advanced && (before > 0) == (progress_.unfinished > 0)) return;
        const bool runs = !operations_.empty() && operations_.front().has_started;
        progress_.running = runs ? std::optional(operations_.front().call) : std::nullopt;
        now = progress_;
    }
    listener_.on_device(now);
}

}  // namespace gptrain::cuda
