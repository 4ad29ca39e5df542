#include "emulator/queue.h"

#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace gptrain::emulator {
namespace {

/// Another process that does nothing for so long has failed.
constexpr double most_seconds = 120;

std::set<Queue*>& queues() {
    static std::set<Queue*> all;
    return all;
}

/// Does the next work of each queue, or each urgent one, that need not wait; false if that is
/// nothing.
bool run_any(bool only_urgent = false) {
    bool any = false;
    for (Queue* queue : queues()) {
        if (queue->urgent() || !only_urgent) any = queue->run_next_if_ready() || any;
    }
    return any;
}

/// Does what any queue can do; lets other processes run if that is nothing.
void run_others() {
    if (!run_any()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

Haste& haste() {
    static Haste haste = Haste::none;
    return haste;
}

Queue::Queue(bool urgent) : urgent_(urgent) {
    queues().insert(this);
}
Queue::~Queue() {
    queues().erase(this);
}

void Queue::add(QueuedWork work) {
    work_.push_back(std::move(work));
    static std::minstd_rand random(static_cast<unsigned>(getpid()));
    static bool in_haste = false;
    if (in_haste || haste() == Haste::none) return;
    if (haste() == Haste::some && random() % 4 != 0) return;
    in_haste = true;
    while (run_any(haste() == Haste::messages)) {
    }
    in_haste = false;
}

void Queue::run_next() {
    const QueuedWork work = std::move(work_.front());
    work_.pop_front();
    running_ = true;
    try {
        work.run();
    } catch (...) {
        running_ = false;
        done_ += 1 + std::ssize(work_);
        work_.clear();
        throw;
    }
    running_ = false;
    ++done_;
}

bool Queue::run_next_if_ready() {
    if (busy_ || running_ || work_.empty()) return false;
    if (work_.front().ready && !work_.front().ready()) return false;
    run_next();
    return true;
}

void Queue::run_to(std::int64_t point) {
    if (done_ >= point) return;
    GPTRAIN_CHECK(!busy_, "streams wait for each other");
    busy_ = true;
    try {
        while (done_ < point) {
            const auto begin = std::chrono::steady_clock::now();
            while (work_.front().ready && !work_.front().ready()) {
                work_.front().hurry ? work_.front().hurry() : run_others();
                GPTRAIN_CHECK(seconds_since(begin) < most_seconds,
                              "a stream has waited for another process for ", most_seconds,
                              " seconds");
            }
            run_next();
        }
    } catch (...) {
        busy_ = false;
        throw;
    }
    busy_ = false;
}

bool Queue::try_run_to(std::int64_t point) {
    while (done_ < point)
        if (!run_next_if_ready() && !run_any()) return false;
    return true;
}

void run_all() {
    for (Queue* queue : queues())
        queue->run_to(queue->end());
}

}  // namespace gptrain::emulator
