#include "base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace gptrain {

int core_count() {
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& work) {
    std::atomic<std::int64_t> next = 0;
    std::mutex mutex;
    std::exception_ptr fault;
    const auto run_items = [&] {
        try {
            for (std::int64_t i = next++; i < count; i = next++)
                work(i);
        } catch (...) {
            next = count;
            const std::lock_guard lock(mutex);
            if (!fault) fault = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        try {
            while (std::ssize(others) + 1 < std::min<std::int64_t>(threads, count))
                others.emplace_back(run_items);
        } catch (const std::system_error&) {
            // The system has no more threads; continue with those started.
        }
        run_items();
    }
    if (fault) std::rethrow_exception(fault);
}

}  // namespace gptrain
