// How much a rank sends on each axis, and how long it is kept from computing by that.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "comm/comm_listener.h"

namespace gptrain {

struct AxisTotal {
    std::int64_t bytes = 0;  ///< sent by this rank
    double seconds = 0;      ///< that its thread spent in issuing operations and waiting for them
};

/// Sums since it was made or cleared. Where operations and waits are the device's own (NCCL) the
/// seconds are not those of the device.
class CommTotals final : public CommListener {
public:
    using ByAxis = std::array<AxisTotal, axes>;

    void clear() { by_axis_ = {}; }
    const ByAxis& by_axis() const { return by_axis_; }
    const AxisTotal& operator[](Axis axis) const {
        return by_axis_[static_cast<std::size_t>(axis)];
    }

    void started(const CommCall& call) override;
    void issued(const CommCall& call) override { stop(call); }
    void waiting(const CommCall& /*call*/) override { since_ = Clock::now(); }
    void finished(const CommCall& call) override { stop(call); }

private:
    using Clock = std::chrono::steady_clock;
    AxisTotal& of(const CommCall& call) { return by_axis_[static_cast<std::size_t>(call.axis)]; }
    void stop(const CommCall& call);

    ByAxis by_axis_{};
    Clock::time_point since_;
};

}  // namespace gptrain
