// Waits of a stream for events, and how long they took on the device.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Events that measure time. They take time to make, so used ones are kept for the next marks.
class EventPool {
public:
    /// An event after all that has been issued to the stream.
    Event mark(const Stream& stream) {
        if (free_.empty()) free_.emplace_back(Event::Purpose::time);
        Event event = std::move(free_.back());
        free_.pop_back();
        event.record(stream);
        return event;
    }
    void put_back(Event event) { free_.push_back(std::move(event)); }

private:
    std::vector<Event> free_;
};

class TimedWaits {
public:
    /// Later work of the stream runs after the event.
    void wait(const Event& event, const Stream& stream, EventPool& events) {
        Event begin = events.mark(stream);
        stream.wait(event);
        waits_.push_back({.begin = std::move(begin), .end = events.mark(stream)});
    }
    /// Milliseconds in the waits that the stream has passed since the last call.
    double take_passed(EventPool& events) {
        double passed = 0;
        for (; !waits_.empty() && waits_.front().end.done(); waits_.pop_front()) {
            Wait& wait = waits_.front();
            passed += wait.end.milliseconds_since(wait.begin);
            events.put_back(std::move(wait.begin));
            events.put_back(std::move(wait.end));
        }
        return passed;
    }
    std::size_t pending() const { return waits_.size(); }

private:
    struct Wait {
        Event begin;
        Event end;
    };
    std::deque<Wait> waits_;
};

}  // namespace gptrain::cuda
