#include "cpu/spin_limit.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "base/text.h"
#include "catch.h"

namespace gptrain {
namespace {

using namespace std::chrono_literals;

/// How long the thread has run.
std::chrono::nanoseconds running_time(pid_t thread) {
    std::int64_t nanoseconds = 0;
    std::ifstream(text("/proc/self/task/", thread, "/schedstat")) >> nanoseconds;
    return std::chrono::nanoseconds(nanoseconds);
}

/// How long the second OpenMP thread runs while it waits 5 ms for the first, in the mean.
std::chrono::nanoseconds time_spinning() {
    constexpr int waits = 20;
    const pid_t second = cpu::start_openmp(2).at(1);
    const auto before = running_time(second);
    for (int i = 0; i < waits; ++i) {
        std::this_thread::sleep_for(5ms);
        cpu::start_openmp(2);
    }
    return (running_time(second) - before) / waits;
}

/// True if the condition holds within half a minute: other programs may disturb a measurement.
bool soon(const std::function<bool()>& condition) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() < begin + 30s)
        if (condition()) return true;
    return false;
}

/// Threads that keep all cores busy.
class BusyCores {
public:
    BusyCores() {
        for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
            threads_.emplace_back([this] {
                while (!end_) {
                }
            });
    }
    ~BusyCores() { end_ = true; }

private:
    std::atomic<bool> end_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace

// GCC's OpenMP spins 300,000 turns, which take milliseconds, or 100 if there are too many threads.
TEST_CASE("waiting OpenMP threads sleep soon while the cores are busy") {
    if (std::thread::hardware_concurrency() < 2) {
        WARN("not run: one core");
        return;
    }
    constexpr auto much = 500us;
    constexpr auto little = 200us;
    const auto spins = [&] { return time_spinning() > much; };
    CHECK(soon(spins));
    {
        const cpu::SpinLimit limit(cpu::start_openmp(2));
        const BusyCores busy;
        CHECK(soon([&] { return time_spinning() < little; }));
    }
    CHECK(soon(spins));
}

}  // namespace gptrain
