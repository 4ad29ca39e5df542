// The state of processes, as the system reports it.
#include "watch/process_state.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "catch.h"

namespace gptrain::test {
namespace {

/// While it lives, this thread and those that it starts share one core.
class OneCore {
public:
    OneCore() {
        REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    }
    OneCore(const OneCore&) = delete;
    OneCore& operator=(const OneCore&) = delete;
    ~OneCore() { sched_setaffinity(0, sizeof before_, &before_); }

private:
    cpu_set_t before_;
};

double thread_ms() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

}  // namespace

TEST_CASE("a thread that is ready to run waits for its core while others have it") {
    if (!std::filesystem::exists("/proc/self/schedstat")) return;
    const OneCore one;
    const double computed = thread_ms();
    const std::int64_t waited = ms_without_core();
    std::vector<std::jthread> others;
    for (int i = 0; i < 3; ++i)
        others.emplace_back([](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
            }
        });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
    while (std::chrono::steady_clock::now() < end) {
    }
    const auto waited_ms = static_cast<double>(ms_without_core() - waited);
    const double computed_ms = thread_ms() - computed;
    CHECK(waited_ms > 1.5 * computed_ms);
    CHECK(computed_ms + waited_ms > 300);
}

TEST_CASE("a process that runs is not blocked, and one that is gone is reported") {
    CHECK_FALSE(is_blocked());
    CHECK(describe_process_state(::getpid()).empty());
    CHECK(describe_process_state(std::int64_t{1} << 40) == "its process is gone");
}

}  // namespace gptrain::test
