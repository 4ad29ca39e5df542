#include "base/signals.h"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.h"
#include "support/temp_folder.h"
#include "train/requests.h"

namespace gptrain {
namespace {

using test::fill;
using test::TempFolder;

/// Replaces the action of a signal during its lifetime.
class SignalAction {
public:
    SignalAction(int signal, void (*action)(int))
        : signal_(signal), before_(std::signal(signal, action)) {}
    ~SignalAction() { std::signal(signal_, before_); }
    SignalAction(const SignalAction&) = delete;
    SignalAction& operator=(const SignalAction&) = delete;

private:
    int signal_;
    void (*before_)(int);
};

TEST_CASE("a handler keeps off the stack of what it interrupts") {
    static std::uintptr_t frame = 0;
    struct sigaction action {};
    action.sa_handler = [](int) {
        const int local = 0;
        frame = reinterpret_cast<std::uintptr_t>(&local);
    };
    struct sigaction before {};
    handle_signal(SIGUSR1, action, &before);
    std::raise(SIGUSR1);
    REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
    const int local = 0;
    const auto here = reinterpret_cast<std::uintptr_t>(&local);
    constexpr std::uintptr_t far = std::uintptr_t{1} << 20;
    CHECK((frame > here + far || frame + far < here));
}

TEST_CASE("a signal only leaves its name") {
    const auto [number, name] = GENERATE(table<int, std::string>(
        {{SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}}));
    const SignalAction unless_ignored(SIGHUP, SIG_DFL);
    const Requests requests({}, {});
    CHECK(requests.most_urgent(1e9) == Request::none);
    REQUIRE(std::raise(number) == 0);
    CHECK(name_of(requests.most_urgent(0)) == name);
    CHECK(exit_code_of(requests.most_urgent(0)) == ExitCode::requeue);
}

TEST_CASE("the first signal is the one that is named") {
    const StopSignals signals;
    REQUIRE(std::raise(SIGUSR1) == 0);
    REQUIRE(std::raise(SIGTERM) == 0);
    CHECK(signals.received() == SIGUSR1);
}

TEST_CASE("a SIGHUP that nohup ignores stays ignored") {
    const SignalAction ignored(SIGHUP, SIG_IGN);
    const StopSignals signals;
    REQUIRE(std::raise(SIGHUP) == 0);
    CHECK(signals.received() == 0);
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
    CHECK(StopSignals().received() == 0);
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
    CHECK_FALSE(Deadline().seconds_left().has_value());
    const Deadline soon = Deadline::at(Deadline::Clock::now() + 100s);
    CHECK(soon.seconds_left().value() == Approx(100).margin(5));
    CHECK(Requests(soon, {}).most_urgent(50) == Request::none);
    CHECK(Requests(soon, {}).most_urgent(200) == Request::time_limit);
    const Deadline past = Deadline::at(Deadline::Clock::now() - 1s);
    CHECK(Requests(past, {}).most_urgent(0) == Request::time_limit);
}

TEST_CASE("files ask to save or to stop until they are cleared") {
    const TempFolder folder;
    const Requests requests({}, folder.path());
    CHECK(requests.most_urgent(0) == Request::none);
    fill(folder / "SAVE", "");
    CHECK(requests.most_urgent(0) == Request::save);
    CHECK_FALSE(stops(Request::save));
    fill(folder / "STOP", "");
    CHECK(requests.most_urgent(0) == Request::stop);
    CHECK(exit_code_of(Request::stop) == ExitCode::done);
    requests.clear(Request::stop);
    CHECK(requests.most_urgent(0) == Request::save);
    requests.clear(Request::save);
    requests.clear(Request::save);
    CHECK(requests.most_urgent(0) == Request::none);
}

TEST_CASE("the job's end comes from Slurm") {
    const std::string end = std::to_string(std::time(nullptr) + 600);
    REQUIRE(::setenv("SLURM_JOB_END_TIME", end.c_str(), 1) == 0);
    CHECK(Deadline::at_job_end().seconds_left().value() == Approx(600).margin(5));
    for (const char* wrong : {"", "soon", "none", "1e9", "99999999999999999999"}) {
        REQUIRE(::setenv("SLURM_JOB_END_TIME", wrong, 1) == 0);
        CHECK(test::contains(test::message_of(ExitCode::usage, [] { Deadline::at_job_end(); }),
                             "SLURM_JOB_END_TIME"));
    }
    REQUIRE(::setenv("SLURM_JOB_END_TIME", "NONE", 1) == 0);
    CHECK_FALSE(Deadline::at_job_end().seconds_left().has_value());
    REQUIRE(::unsetenv("SLURM_JOB_END_TIME") == 0);
    CHECK(test::contains(test::message_of(ExitCode::usage, [] { Deadline::at_job_end(); }),
                         "faults.time_limit"));
}

}  // namespace
}  // namespace gptrain
