// The order of work in the emulator's streams.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace gptrain::emulator {

/// Work of one stream. It is done as late as it may be: when somebody waits for it. So whatever
/// forgets to wait for another stream finds what was there before.
class Queue {
public:
    Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    void add(std::function<void()> work) { work_.push_back(std::move(work)); }
    /// The point behind all work so far.
    std::int64_t end() const { return done_ + std::ssize(work_); }
    /// Does all work before the point. After a fault the rest is left out.
    void run_to(std::int64_t point);

private:
    std::deque<std::function<void()>> work_;
    std::int64_t done_ = 0;
};

/// Does the work of all queues there are.
void run_all();

}  // namespace gptrain::emulator
