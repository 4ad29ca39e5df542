// The order of work in the emulator's streams.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace gptrain::emulator {

/// The work of one stream, done as late as allowed: when something waits for it. So code that
/// forgets to wait for another stream finds the old contents.
class Queue {
public:
    Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    void add(std::function<void()> work) { work_.push_back(std::move(work)); }
    /// The point after all work so far.
    std::int64_t end() const { return done_ + std::ssize(work_); }
    /// Does all work before the point. After a fault the rest is dropped.
    void run_to(std::int64_t point);

private:
    std::deque<std::function<void()>> work_;
    std::int64_t done_ = 0;
};

/// Does the work of all queues.
void run_all();

}  // namespace gptrain::emulator
