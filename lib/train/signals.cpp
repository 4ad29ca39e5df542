#include "train/signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"

namespace gptrain {
namespace {

struct Handled {
    int signal;
    std::string_view name;
    bool once;  ///< the second one has its usual effect
};

// A person who presses Ctrl-C twice means it.
constexpr std::array<Handled, 3> handled = {
    {{SIGTERM, "SIGTERM", false}, {SIGUSR1, "SIGUSR1", false}, {SIGINT, "SIGINT", true}}};

// A handler has no other way to reach the object: the signal that came first, 0 for none.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "set in a signal handler");

void note(int signal) {
    int none = 0;
    first_signal.compare_exchange_strong(none, signal);
}

}  // namespace

StopSignals::StopSignals() {
    first_signal = 0;
    for (const Handled& entry : handled) {
        struct sigaction action {};
        action.sa_handler = note;
        action.sa_flags = SA_RESTART;
        if (entry.once) action.sa_flags |= static_cast<int>(SA_RESETHAND);
        sigemptyset(&action.sa_mask);
        Before before{entry.signal, {}};
        if (::sigaction(entry.signal, &action, &before.action) != 0) {
            fail_errno(errno, "sigaction ", entry.name);
        }
        before_.push_back(before);
    }
}

StopSignals::~StopSignals() {
    for (const Before& before : before_)
        ::sigaction(before.signal, &before.action, nullptr);
}

int StopSignals::received() const {
    return first_signal;
}

Deadline Deadline::at_job_end() {
    const char* variable = std::getenv("SLURM_JOB_END_TIME");
    if (variable == nullptr) {
        fail(ExitCode::usage,
             "faults.time_limit: 'auto' needs SLURM_JOB_END_TIME, which Slurm sets in a job; "
             "outside "
             "of one give the seconds");
    }
    const std::optional<std::int64_t> end = parse_int(variable);
    if (!end) {
        fail(ExitCode::usage, "SLURM_JOB_END_TIME is '", variable,
             "', not a time in Unix seconds; give faults.time_limit in seconds");
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return at(Clock::now() +
              std::chrono::duration_cast<Clock::duration>(std::chrono::seconds(*end) - now));
}

std::optional<double> Deadline::seconds_left() const {
    if (!time_) return std::nullopt;
    return std::chrono::duration<double>(*time_ - Clock::now()).count();
}

}  // namespace gptrain
