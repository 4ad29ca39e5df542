// The order of work in the emulator's streams.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace gptrain::emulator {

/// Work of a stream.
struct QueuedWork {
    std::function<void()> run;
    /// False as long as the stream waits for something outside of it; none: it does not.
    std::function<bool()> ready = nullptr;
    /// Brings about what the stream waits for; none: another process does.
    std::function<void()> hurry = nullptr;
};

/// When streams do work that nothing waits for yet: never; as soon as they can, all or only those
/// of messages, which are urgent; or now and then.
enum class Haste { none, all, messages, some };
Haste& haste();

/// The work of one stream, done as late as allowed unless there is haste: when something waits for
/// it. So code that forgets to wait for another stream finds the old contents. While a stream waits
/// for another process, all streams of this one run on as far as they can.
class Queue {
public:
    explicit Queue(bool urgent = false);
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    void add(std::function<void()> work) { add(QueuedWork{std::move(work)}); }
    void add(QueuedWork work);
    /// The point after all work so far.
    std::int64_t end() const { return done_ + (running_ ? 1 : 0) + std::ssize(work_); }
    bool has_reached(std::int64_t point) const { return done_ >= point; }
    /// Does all work before the point. After a fault the rest is dropped.
    void run_to(std::int64_t point);
    /// The same for work that need not wait for another process; true if that was all.
    bool try_run_to(std::int64_t point);
    /// Does the next work if it need not wait; returns false if it has to, or there is none.
    bool run_next_if_ready();
    bool urgent() const { return urgent_; }

private:
    void run_next();

    const bool urgent_;
    std::deque<QueuedWork> work_;
    std::int64_t done_ = 0;
    bool running_ = false;  ///< the work after `done_`
    bool busy_ = false;     ///< in run_to
};

/// Does the work of all queues.
void run_all();

}  // namespace gptrain::emulator
