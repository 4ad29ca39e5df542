#include "emulator/queue.h"

#include <set>
#include <utility>

namespace gptrain::emulator {
namespace {

std::set<Queue*>& queues() {
    static std::set<Queue*> all;
    return all;
}

}  // namespace

Queue::Queue() {
    queues().insert(this);
}
Queue::~Queue() {
    queues().erase(this);
}

void Queue::run_to(std::int64_t point) {
    while (done_ < point) {
        const std::function<void()> work = std::move(work_.front());
        work_.pop_front();
        ++done_;
        try {
            work();
        } catch (...) {
            done_ = end();
            work_.clear();
            throw;
        }
    }
}

void run_all() {
    for (Queue* queue : queues())
        queue->run_to(queue->end());
}

}  // namespace gptrain::emulator
