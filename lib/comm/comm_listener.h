// What a rank says to others, as told to those who watch: counters, timelines, the watchdog.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/mesh.h"

namespace gptrain {

/// One operation of a communicator, as its rank sees it.
struct CommCall {
    Axis axis;  ///< what the communicator is for; channels belong to pp
    /// Which of the communicators that the factory was asked for; the same on all ranks.
    int communicator = 0;
    std::string_view operation;  ///< "all_reduce", "send", ...: static text
    std::int64_t number = 0;     ///< counts the operations of this communicator from 1
    std::int64_t bytes = 0;      ///< that this rank sends
};

/// Is told of every operation in this order, by the thread that issues it. `waiting` and `finished`
/// come as late as somebody waits, however early the operation was over; for one that is dropped
/// while an exception flies they do not come.
class CommListener {
public:
    virtual ~CommListener() = default;
    virtual void started(const CommCall& call) = 0;   ///< before it is issued
    virtual void issued(const CommCall& /*call*/) {}  ///< the caller goes on
    virtual void waiting(const CommCall& call) = 0;   ///< the caller begins to wait for it
    virtual void finished(const CommCall& call) = 0;  ///< the wait has ended
};

/// Tells any number of listeners, in the order in which they came.
class CommListeners final : public CommListener {
public:
    /// `listener` outlives the communicators.
    void add(CommListener& listener) { listeners_.push_back(&listener); }

    void started(const CommCall& call) override;
    void issued(const CommCall& call) override;
    void waiting(const CommCall& call) override;
    void finished(const CommCall& call) override;

private:
    std::vector<CommListener*> listeners_;
};

/// Communicators as `make` makes them, whose operations are told to `listener`, which outlives
/// them. A group of one rank says nothing to others and is left as it is.
///
/// The bytes that a rank sends of n (of the larger tensor) among p ranks are the least possible
/// over all ranks together, as a ring sends them: n (p - 1) / p for all_gather, reduce_scatter and
/// all_to_all, twice that for all_reduce, n for a message and from the root of a broadcast.
CommunicatorFactory observed(CommunicatorFactory make, CommListener& listener);

}  // namespace gptrain
