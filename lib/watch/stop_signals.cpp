#include "watch/stop_signals.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// SIGTERM, SIGUSR1 and SIGINT are handled even if they are ignored, as in a background job:
/// whoever sends one means the run. An ignored SIGHUP stays ignored (nohup).
std::vector<int> handled() {
    std::vector<int> signals = {SIGTERM, SIGUSR1, SIGINT};
    if (!is_ignored(SIGHUP)) signals.push_back(SIGHUP);
    return signals;
}

// The first signal received, 0 if none. Global because a handler cannot reach the object.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "set in a signal handler");
// The texts that the object prints on a signal, and on SIGINT.
std::atomic<const char*> message{""};
std::atomic<const char*> message_of_sigint{""};
static_assert(std::atomic<const char*>::is_always_lock_free, "read in a signal handler");

void record_signal(int signal) {
    int none = 0;
    if (!first_signal.compare_exchange_strong(none, signal) || stdout_silenced()) return;
    const int error = errno;
    write_from_handler("warning: ", signal_name(signal),
                       signal == SIGINT ? message_of_sigint.load() : message.load());
    errno = error;
}

}  // namespace

void end_run_on_signals() {
    end_on_signals(handled(), {.before = "warning: ",
                               .after = ": the run ends now, outside a step, so nothing is lost; "
                                        "the same command restarts it",
                               .code = ExitCode::requeue});
}

StopSignals::StopSignals(const std::string& plan)
    : message_(text(": ", plan)),
      message_of_sigint_(text(message_, "; a second SIGINT ends it at once without saving")) {
    first_signal = 0;
    message = message_.c_str();
    message_of_sigint = message_of_sigint_.c_str();
    for (const int signal : handled()) {
        struct sigaction action {};
        action.sa_handler = record_signal;
        action.sa_flags = SA_RESTART;
        // The second Ctrl-C gets the default action: it ends the process.
        if (signal == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
        sigemptyset(&action.sa_mask);
        PreviousHandler previous{signal, {}};
        handle_signal(signal, action, &previous.action);
        previous_.push_back(previous);
    }
}

StopSignals::~StopSignals() {
    for (const PreviousHandler& previous : previous_)
        ::sigaction(previous.signal, &previous.action, nullptr);
}

int StopSignals::received() const {
    return first_signal;
}

Deadline Deadline::at_job_end() {
    const char* variable = std::getenv("SLURM_JOB_END_TIME");
    if (variable == nullptr) {
        fail(ExitCode::usage,
             "faults.time_limit: 'auto' needs SLURM_JOB_END_TIME, which Slurm sets in a job; "
             "outside a job, give seconds");
    }
    if (std::string_view(variable) == "NONE") return {};
    const std::optional<std::int64_t> end = parse_int(variable);
    if (!end) {
        fail(ExitCode::usage, "SLURM_JOB_END_TIME is '", variable,
             "', not a time in Unix seconds or NONE; give faults.time_limit in seconds");
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
