// The two ways in which the system asks a run to stop: signals and time limits.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace gptrain {

/// For phases outside the training loop, where a run can stop at any time without losing work:
/// SIGTERM, SIGUSR1, SIGINT and SIGHUP end the process at once with exit code `requeue`. A SIGHUP
/// that is ignored, as under nohup, stays ignored.
void end_run_on_signals();

/// During its lifetime SIGTERM, SIGUSR1, SIGINT and SIGHUP (unless it is ignored) are only
/// recorded. The first one prints at once (unless output is silenced) what the run will do. A
/// second SIGINT ends the process at once. Only one object may exist at a time; its destructor
/// restores the previous handlers.
class StopSignals {
public:
    /// `plan`: what the run will do.
    explicit StopSignals(
        const std::string& plan = "the run saves after the current step and stops");
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// The first signal received, or 0.
    int received() const;

private:
    struct PreviousHandler {
        int signal;
        struct sigaction action;
    };
    std::string message_;
    std::string message_of_sigint_;
    std::vector<PreviousHandler> previous_;
};

/// The time by which a run must have ended.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    /// No deadline.
    Deadline() = default;
    static Deadline at(Clock::time_point time) { return Deadline(time); }
    /// The end of the Slurm job: SLURM_JOB_END_TIME, in Unix seconds, or NONE, as squeue prints for
    /// a job without a time limit. Error (usage) if it is unset or anything else.
    static Deadline at_job_end();

    /// Empty without a deadline; negative after it.
    std::optional<double> seconds_left() const;

private:
    explicit Deadline(Clock::time_point time) : time_(time) {}
    std::optional<Clock::time_point> time_;
};

}  // namespace gptrain
