// How much a rank sends on each axis, and how long that keeps it from computing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "comm/comm_listener.h"

namespace gptrain {

struct AxisTotal {
    std::int64_t bytes = 0;  ///< sent by this rank
    double seconds = 0;      ///< its thread spent issuing operations and waiting for them

    AxisTotal& operator+=(const AxisTotal& more) {
        bytes += more.bytes;
        seconds += more.seconds;
        return *this;
    }
};

/// Sums since construction or `clear`. If operations and waits run on the device (NCCL), the
/// seconds do not measure them.
class CommTotals final : public CommListener {
public:
    using ByAxis = std::array<AxisTotal, axes>;

    void clear() { by_axis_ = {}; }
    const ByAxis& by_axis() const { return by_axis_; }
    const AxisTotal& operator[](Axis axis) const {
        return by_axis_[static_cast<std::size_t>(axis)];
    }

    void on_started(const CommCall& call) override;
    void on_issued(const CommCall& call) override { stop(call); }
    void on_waiting(const CommCall& /*call*/) override { since_ = Clock::now(); }
    void on_finished(const CommCall& call) override { stop(call); }

private:
    using Clock = std::chrono::steady_clock;
    AxisTotal& of(const CommCall& call) { return by_axis_[static_cast<std::size_t>(call.axis)]; }
    void stop(const CommCall& call);

    ByAxis by_axis_{};
    Clock::time_point since_;
};

}  // namespace gptrain
