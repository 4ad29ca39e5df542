// The times of a start: the stopwatch, the table and the line of metrics.jsonl.
#include "metrics/start_times.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/text.h"
#include "catch.h"
#include "metrics/metrics_line.h"

namespace gptrain {
namespace {

double& of(StartSeconds& seconds, StartPhase phase) {
    return seconds[static_cast<std::size_t>(phase)];
}

TEST_CASE("each phase of a start has its time, from the start of the process on") {
    StartTimes times;
    const auto pause = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
    times.begin(StartPhase::load);
    pause(30);
    times.begin(StartPhase::inputs);
    pause(20);
    times.begin(StartPhase::load);
    pause(30);
    CHECK_FALSE(times.ended());
    times.end();
    CHECK(times.ended());
    pause(20);
    times.end();
    StartSeconds seconds = times.seconds();
    CHECK(of(seconds, StartPhase::launch) > 0);
    CHECK(of(seconds, StartPhase::load) >= 0.06);
    CHECK(of(seconds, StartPhase::inputs) >= 0.02);
    double sum = 0;
    for (const double each : seconds)
        sum += each;
    CHECK(sum <= seconds_since(times.began()) - 0.02);
}

StartReport some_start() {
    StartReport start = {.step = 101, .loaded = "local copies", .repeated = 250.5};
    of(start.seconds, StartPhase::launch) = 0.25;
    of(start.seconds, StartPhase::connect) = 0.125;
    of(start.seconds, StartPhase::load) = 12.5;
    of(start.seconds, StartPhase::first_step) = 2;
    return start;
}

TEST_CASE("the table of a start has the phases that count, and what the failure cost") {
    const StartReport start = some_start();
    CHECK(start_table(start) ==
          std::vector<std::string>{
              "start: 14.9 s until the end of the first step; seconds of each "
              "phase, of the slowest rank:",
              "  launch            0.25", "  load             12.50  local copies",
              "  first_step        2.00", "  repeated           250  of training"});
    // Below a hundredth of the start and a twentieth of a second.
    CHECK(start_table({.step = 1, .since_failure = 3.25}).size() == 2);
    CHECK(start_table({.step = 1, .since_failure = 3.25}).back() == "  since failure     3.25");
}

TEST_CASE("the line of a start reads back") {
    StartReport start = some_start();
    start.since_failure = 20;
    const std::string line = to_text(start);
    CHECK(
        line.starts_with("{\"event\": \"start\", \"step\": 101, \"seconds\": {\"launch\": 0.25, "
                         "\"agree\": 0, "));
    CHECK(
        line.ends_with("\"first_step\": 2}, \"loaded\": \"local copies\", \"repeated\": 250.5, "
                       "\"since_failure\": 20}"));
    const auto read = parse_metrics_line(line);
    REQUIRE(read);
    REQUIRE(std::holds_alternative<StartReport>(*read));
    CHECK(to_text(std::get<StartReport>(*read)) == line);
    // One with phases that another version knows.
    CHECK(parse_metrics_line("{\"event\": \"start\", \"step\": 1, \"seconds\": {\"warm\": 2}}"));
    CHECK_FALSE(parse_metrics_line("{\"event\": \"start\", \"step\": 1}"));
}

TEST_CASE("the time since the failure comes from the batch script") {
    ::unsetenv("GPTRAIN_FAILED");
    CHECK_FALSE(seconds_since_failure());
    ::setenv("GPTRAIN_FAILED", "", 1);
    CHECK_FALSE(seconds_since_failure());
    ::setenv("GPTRAIN_FAILED", text(static_cast<std::int64_t>(unix_seconds()) - 30).c_str(), 1);
    CHECK(seconds_since_failure().value() >= 30);
    CHECK(seconds_since_failure().value() < 60);
    ::unsetenv("GPTRAIN_FAILED");
}

}  // namespace
}  // namespace gptrain
