// The own time of a rank's device in each step, by events.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/device_timer.h"
#include "cuda/runtime/timed_waits.h"

namespace gptrain::cuda {

/// All calls but `collect_if_free` are made by the thread that issues work to the compute stream.
class StepTimer final : public DeviceTimer {
public:
    /// `compute` must outlive it.
    explicit StepTimer(const Stream& compute) : compute_(compute) {}

    void begin_step() override;
    void end_step() override;
    std::vector<double> take_steps() override;

    /// Makes computation wait for the event, and measures how long it does.
    void wait(const Event& event);
    /// Adds what the device has passed, so that its events can be used again. Returns at once if
    /// the other thread is in a call, which may wait for the device.
    void collect_if_free();

private:
    struct Step {
        Event begin;
        std::optional<Event> end;  ///< none as long as the host still issues the step
        TimedWaits waits;
        double waited = 0;  ///< ms in those that the device has passed
    };
    void collect();

    const Stream& compute_;
    std::mutex mutex_;
    std::deque<Step> steps_;
    std::vector<double> own_seconds_;
    EventPool events_;
};

}  // namespace gptrain::cuda
