// Copies between the device and pinned host memory beside computation, for state and activations
// that wait on the host (Backend::fetch, store, join).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "cuda/runtime/timed_waits.h"

namespace gptrain::cuda {

class SideCopies {
public:
    enum class Direction { to_device, to_host };

    /// Starts the copies once the work issued to `compute` is done; returns their number for
    /// `join`. Each direction has a stream, because a GPU's link carries both at the same time.
    std::int64_t start(Direction direction, std::span<const HostTwin> twins, const Stream& compute);
    /// Later work of `compute` runs after these copies.
    void join(std::int64_t copies, const Stream& compute);
    /// Seconds that computation has waited in `join` since the last call, in joins that it has
    /// passed.
    double take_waited();

private:
    /// The events of recent copies. A join of older copies waits for a later one, which ends after
    /// them.
    static constexpr std::int64_t remembered = 8;
    struct Lane {
        Stream stream;
        std::array<Event, remembered> done;
        std::int64_t next = 0;
    };
    static constexpr std::int64_t directions = 2;
    std::array<Lane, directions> lanes_;
    Event issued_;
    EventPool events_;
    TimedWaits joins_;
    double waited_ = 0;  ///< ms in joins that are no longer in joins_
};

}  // namespace gptrain::cuda
