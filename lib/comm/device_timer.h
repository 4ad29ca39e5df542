// Measures what a device itself does in a step.
#pragma once

#include <vector>

namespace gptrain {

/// For a device that computes while the host continues, whose time host clocks do not measure.
class DeviceTimer {
public:
    virtual ~DeviceTimer() = default;
    /// Operations issued from now on belong to the next step.
    virtual void begin_step() = 0;
    virtual void end_step() = 0;
    /// The seconds of each step that has ended since the last call, without those in which the
    /// device only waited for communication.
    virtual std::vector<double> take_steps() = 0;
};

}  // namespace gptrain
