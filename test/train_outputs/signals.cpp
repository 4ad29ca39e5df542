#include "train/signals.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

TEST_CASE("a signal only leaves its name") {
    const auto [number, name] = GENERATE(
        table<int, std::string>({{SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGINT, "SIGINT"}}));
    const StopSignals signals;
    CHECK_FALSE(signals.received().has_value());
    CHECK_FALSE(stop_reason(signals, Deadline(), 1e9).has_value());
    REQUIRE(std::raise(number) == 0);
    CHECK(signals.received().value() == name);
    CHECK(stop_reason(signals, Deadline(), 0).value() == name);
}

TEST_CASE("the first signal is the one that is named") {
    const StopSignals signals;
    REQUIRE(std::raise(SIGUSR1) == 0);
    REQUIRE(std::raise(SIGTERM) == 0);
    CHECK(signals.received().value() == "SIGUSR1");
}

TEST_CASE("handlers that were there before return") {
    static volatile std::sig_atomic_t seen = 0;
    std::signal(SIGUSR1, [](int) { seen = 1; });
    {
        const StopSignals signals;
        std::raise(SIGUSR1);
        CHECK(seen == 0);
    }
    std::raise(SIGUSR1);
    CHECK(seen == 1);
    std::signal(SIGUSR1, SIG_DFL);
    CHECK_FALSE(StopSignals().received().has_value());
}

TEST_CASE("a second Ctrl-C ends the process") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const StopSignals signals;
        std::raise(SIGINT);
        if (!signals.received()) ::_exit(1);
        std::raise(SIGINT);
        ::_exit(2);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("a deadline is reached when the margin no longer fits before it") {
    using namespace std::chrono_literals;
    const StopSignals signals;
    CHECK_FALSE(Deadline().seconds_left().has_value());
    const Deadline soon = Deadline::at(Deadline::Clock::now() + 100s);
    CHECK(soon.seconds_left().value() == Approx(100).margin(5));
    CHECK_FALSE(stop_reason(signals, soon, 50).has_value());
    CHECK(stop_reason(signals, soon, 200).value() == "time limit");
    const Deadline past = Deadline::at(Deadline::Clock::now() - 1s);
    CHECK(stop_reason(signals, past, 0).value() == "time limit");
}

TEST_CASE("the job's end comes from Slurm") {
    const std::string end = std::to_string(std::time(nullptr) + 600);
    REQUIRE(::setenv("SLURM_JOB_END_TIME", end.c_str(), 1) == 0);
    CHECK(Deadline::at_job_end().seconds_left().value() == Approx(600).margin(5));
    for (const char* wrong : {"", "soon", "1e9", "99999999999999999999"}) {
        REQUIRE(::setenv("SLURM_JOB_END_TIME", wrong, 1) == 0);
        CHECK(test::contains(test::message_of(ExitCode::usage, [] { Deadline::at_job_end(); }),
                             "SLURM_JOB_END_TIME"));
    }
    REQUIRE(::unsetenv("SLURM_JOB_END_TIME") == 0);
    CHECK(test::contains(test::message_of(ExitCode::usage, [] { Deadline::at_job_end(); }),
                         "faults.time_limit"));
}

}  // namespace
}  // namespace gptrain
