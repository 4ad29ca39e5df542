// The two ways in which a system asks a run to stop: signals and time limits.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <vector>

namespace gptrain {

/// For a run outside of its training loop, where nothing is under way that could be lost: SIGTERM,
/// SIGUSR1 and SIGINT end it at once with the exit code `requeue`.
void end_run_on_signals();

/// While it lives, SIGTERM, SIGUSR1 and SIGINT only leave a mark, and the first one says at once
/// (unless this process was silenced) what it will do. A second SIGINT ends the process at once.
/// One object at a time; handlers that were there before return with its end.
class StopSignals {
public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// The signal that came first, or 0.
    int received() const;

private:
    struct Before {
        int signal;
        struct sigaction action;
    };
    std::vector<Before> before_;
};

/// The time at which a run has to be over.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    /// Never.
    Deadline() = default;
    static Deadline at(Clock::time_point time) { return Deadline(time); }
    /// The end of the Slurm job, which SLURM_JOB_END_TIME gives in Unix seconds; Error (usage) if
    /// that is not set or not a number.
    static Deadline at_job_end();

    /// Nothing if there is no limit; negative once it has passed.
    std::optional<double> seconds_left() const;

private:
    explicit Deadline(Clock::time_point time) : time_(time) {}
    std::optional<Clock::time_point> time_;
};

}  // namespace gptrain
