// Callbacks for a rank's communication, for counters, timelines and the watchdog.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/device_timer.h"
#include "comm/mesh.h"

namespace gptrain {

/// One operation of a communicator, as seen by its rank.
struct CommCall {
    Axis axis;  ///< what the communicator is for; channels count as pp
    /// Index of the communicator in the order of factory calls, the same on all ranks.
    int communicator = 0;
    std::string_view operation;  ///< static text: "all_reduce", "send", ...
    std::int64_t number = 0;     ///< counts this communicator's operations from 1
    std::int64_t bytes = 0;  ///< bytes that this rank sends (of a broadcast, the mean of all ranks)
    /// For a collective: bytes sent by the rank that sends the most, which determine its time. For
    /// a message between two ranks: `bytes`.
    std::int64_t most_bytes = 0;
};

/// How far a device is with operations that the host has issued: it runs them later.
struct DeviceProgress {
    std::int64_t unfinished = 0;               ///< operations issued, but not finished
    std::optional<CommCall> running;           ///< the earliest of them that has started
    std::array<std::int64_t, axes> started{};  ///< the last one, by communicator
};

/// Called for every operation, in the order below, by the thread that issues it. `on_waiting` and
/// `on_finished` are called when the issuer waits, even if the operation finished long before. They
/// are not called for an operation dropped during exception unwinding.
class CommListener {
public:
    virtual ~CommListener() = default;
    virtual void on_started(const CommCall& call) = 0;   ///< before it is issued
    virtual void on_issued(const CommCall& /*call*/) {}  ///< the caller continues
    virtual void on_waiting(const CommCall& call) = 0;   ///< the caller starts to wait for it
    virtual void on_finished(const CommCall& call) = 0;  ///< the wait is over
    /// The device has made progress. Called by a separate thread.
    virtual void on_device(const DeviceProgress& /*progress*/) {}
    /// Steps can be measured on the device, as long as the communicators exist.
    virtual void on_timer(DeviceTimer& /*timer*/) {}
};

/// Forwards to any number of listeners, in the order they were added.
class CommListeners final : public CommListener {
public:
    /// `listener` must outlive the communicators.
    void add(CommListener& listener) { listeners_.push_back(&listener); }

    void on_started(const CommCall& call) override;
    void on_issued(const CommCall& call) override;
    void on_waiting(const CommCall& call) override;
    void on_finished(const CommCall& call) override;
    void on_device(const DeviceProgress& progress) override;
    void on_timer(DeviceTimer& timer) override;

private:
    std::vector<CommListener*> listeners_;
};

/// Wraps the communicators of `make` so that they report their operations to `listener`, which must
/// outlive them. Groups of one rank do not communicate and are not wrapped.
///
/// The number of bytes that a rank sends of n (of the larger tensor) among p ranks is the least
/// possible, that of a ring, on average: n (p - 1) / p for all_gather, reduce_scatter, all_to_all
/// and broadcast, twice that for all_reduce, n for a message.
CommunicatorFactory observed(CommunicatorFactory make, CommListener& listener);

}  // namespace gptrain
