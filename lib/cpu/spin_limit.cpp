#include "cpu/spin_limit.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <omp.h>
#include <optional>
#include <semaphore>
#include <stop_token>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/text.h"

namespace gptrain::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds interval{500};

/// Threads that wait for a core, in the mean over an interval, from which on spinning is limited,
/// and below which it no longer is. docs/performance.md, "Next to other programs", has
/// measurements.
constexpr double limit_from = 0.25;
constexpr double limit_below = 0.1;

/// OpenMP threads that sleep.
class IdleTeam {
public:
    explicit IdleTeam(int threads)
        : holder_([this, threads] {
              try {
                  start_openmp(threads);
              } catch (const std::system_error&) {
                  return;  // Waiting threads spin on.
              }
              // The team's other threads exist until this one, its first, ends.
              end_.acquire();
          }) {}
    ~IdleTeam() { end_.release(); }

    IdleTeam(const IdleTeam&) = delete;
    IdleTeam& operator=(const IdleTeam&) = delete;

private:
    std::binary_semaphore end_{0};
    std::jthread holder_;
};

/// How long the threads have waited for a core since they started; empty if the system does not
/// report it.
std::optional<std::chrono::nanoseconds> wait_for_core(const std::vector<pid_t>& threads) {
    std::int64_t sum = 0;
    for (const pid_t thread : threads) {
        std::ifstream file(text("/proc/self/task/", thread, "/schedstat"));
        std::int64_t ran = 0;
        std::int64_t waited = 0;
        if (!(file >> ran >> waited)) return std::nullopt;
        sum += waited;
    }
    return std::chrono::nanoseconds(sum);
}

void observe(const std::stop_token& stop, const std::vector<pid_t>& threads) {
    // Together with the first team, one more thread than there are cores.
    const int extra = std::max(omp_get_num_procs() - static_cast<int>(threads.size()), 0) + 1;
    std::optional<IdleTeam> idle;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    Clock::time_point before = Clock::now();
    auto waited = wait_for_core(threads);
    while (waited &&
           !stopped.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); })) {
        const auto waited_before = std::exchange(waited, wait_for_core(threads));
        if (!waited) return;
        const Clock::time_point now = Clock::now();
        const double waiting = std::chrono::duration<double>(*waited - *waited_before) /
                               (now - std::exchange(before, now));
        if (!idle && waiting > limit_from) idle.emplace(1 + extra);
        if (idle && waiting < limit_below) idle.reset();
    }
}

}  // namespace

std::vector<pid_t> start_openmp(int threads) {
    {
        // If there is room for as many ordinary threads, there is room for OpenMP's.
        std::mutex started;
        std::vector<std::jthread> ordinary;
        const std::lock_guard hold(started);
        for (int i = 1; i < threads; ++i)
            ordinary.emplace_back([&] { const std::lock_guard wait(started); });
    }
    std::vector<pid_t> ids(static_cast<std::size_t>(threads));
#pragma omp parallel num_threads(threads)
    ids[static_cast<std::size_t>(omp_get_thread_num())] = ::gettid();
    std::erase(ids, 0);  // OpenMP may grant fewer threads
    return ids;
}

SpinLimit::SpinLimit(std::vector<pid_t> threads) {
    if (threads.size() < 2) return;
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
    observer_ = std::jthread(observe, std::move(threads));
}

}  // namespace gptrain::cpu
