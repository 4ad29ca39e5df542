#include "metrics/metrics_log.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <vector>

#include "base/json.h"
#include "catch.h"
#include "support/captured_stderr.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::contains;
using test::contents;
using test::fill;
using test::TempFolder;

TEST_CASE("a step's line has its keys in order, shortest numbers, and null for what is not known") {
    const TempFolder folder;
    MetricsLog log(folder / "metrics.jsonl");
    StepMetrics metrics;
    metrics.step = 12;
    metrics.loss = 0.1 + 0.2;
    metrics.mean_loss = 0.25;
    metrics.grad_norm = std::numeric_limits<double>::infinity();
    metrics.lr = 6.0e-4;
    metrics.loss_scale = 65536;
    metrics.tokens_per_s = std::nan("");
    metrics.consumed_samples = std::int64_t{1} << 60;
    metrics.skipped_steps = 0;
    metrics.goodput.useful = 1.5;
    metrics.goodput.save = 0.25;
    log.write(metrics);
    CHECK(contents(folder / "metrics.jsonl") ==
          "{\"step\": 12, \"loss\": 0.30000000000000004, \"mean_loss\": 0.25, \"grad_norm\": null, "
          "\"lr\": 6e-04, \"loss_scale\": 65536, \"tokens_per_s\": null, \"step_time_s\": null, "
          "\"tflops_per_device\": null, \"consumed_samples\": 1152921504606846976, "
          "\"consumed_tokens\": null, \"memory_bytes\": null, \"skipped_steps\": 0, "
          "\"comm\": {}, \"goodput\": {\"useful\": 1.5, \"init\": 0, \"load\": 0, \"save\": 0.25, "
          "\"eval\": 0, \"lost\": 0}}\n");
}

TEST_CASE("what ranks said to each other stands by axis in a step's line") {
    const TempFolder folder;
    MetricsLog log(folder / "metrics.jsonl");
    StepMetrics metrics;
    metrics.comm = {{"tp", 4096, 0.25}, {"pp", 0, std::nullopt}};
    log.write(metrics);
    CHECK(contains(contents(folder / "metrics.jsonl"),
                   "\"skipped_steps\": null, \"comm\": {\"tp\": {\"bytes\": 4096, \"seconds\": "
                   "0.25}, \"pp\": {\"bytes\": 0, \"seconds\": null}}, \"goodput\": {"));
}

TEST_CASE("every written line is JSON whose numbers read back as the same bits") {
    const TempFolder folder;
    const double loss = GENERATE(5e-324, 1.7976931348623157e308, 1.0 / 3, 1e21, 123456789.0, -1.5);
    {
        MetricsLog log(folder / "metrics.jsonl");
        log.write(Validation{7, loss});
        log.sync();
    }
    const Json line = parse_json(contents(folder / "metrics.jsonl"), "metrics.jsonl");
    CHECK(std::bit_cast<std::uint64_t>(line.at("val_loss").get<double>()) ==
          std::bit_cast<std::uint64_t>(loss));
    CHECK(line.at("step") == 7);
}

TEST_CASE("a log is added to, never rewritten") {
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    {
        MetricsLog log(file);
        log.write(StepMetrics{1});
        log.write(Validation{1, 2.5});
    }
    const std::string before = contents(file);
    MetricsLog log(file);
    log.write(RunEvent{.step = 1});
    CHECK(contents(file) == before + "{\"event\": \"resume\", \"step\": 1}\n");
}

TEST_CASE("a log that another start has taken over is left alone") {
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    bool taken = false;
    {
        MetricsLog log(file, [&] {
            if (taken) fail(ExitCode::hang, "taken over");
        });
        log.write(StepMetrics{1});
        taken = true;
        const std::string before = contents(file);
        for (const auto& write : std::vector<std::function<void()>>{
                 [&] { log.write(StepMetrics{2}); }, [&] { log.sync(); }, [&] { log.finish(); }})
            CHECK(test::message_of(ExitCode::hang, write) == "taken over");
        CHECK(contents(file) == before);
    }
    CHECK(last_logged_step(file) == 1);
}

TEST_CASE("an evaluation counts until the run resumes from before it") {
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    MetricsLog log(file);
    log.write(StepMetrics{100});
    CHECK_FALSE(log.has_validation(100));
    log.write(Validation{100, 3.0});
    log.write(Validation{200, 2.9});
    log.write(Validation{300, 2.8});
    CHECK_FALSE(log.has_tasks(200));
    log.write(TaskEvaluation{200});
    log.write(TaskEvaluation{300});
    log.write(RunEvent{.step = 200});
    const auto check = [](const MetricsLog& read) {
        CHECK(read.has_tasks(200));
        CHECK_FALSE(read.has_tasks(300));
        CHECK_FALSE(read.has_tasks(100));
        CHECK(read.has_validation(100));
        CHECK(read.has_validation(200));
        CHECK_FALSE(read.has_validation(300));
    };
    check(log);
    check(MetricsLog(file));
}

TEST_CASE("the last step that the latest start has logged is found from the end") {
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    MetricsLog log(file);
    CHECK_FALSE(last_logged_step(file));
    log.write(StepMetrics{16});
    log.write(StepMetrics{17});
    log.write(Validation{17, 2.5});
    CHECK(last_logged_step(file) == 17);
    log.write(RunEvent{.kind = RunEvent::Kind::skip, .step = 18, .reason = "nan"});
    CHECK(last_logged_step(file) == 17);
    // A start that has ended before its first step.
    log.write(RunEvent{.step = 15});
    CHECK_FALSE(last_logged_step(file));
    log.write(StepMetrics{16});
    CHECK(last_logged_step(file) == 16);
    // A line torn by a crash.
    std::ofstream(file, std::ios::app) << "{\"step\": 17, \"lo";
    CHECK(last_logged_step(file) == 16);
}

TEST_CASE("the time of a start's last save is there for the next start") {
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    {
        MetricsLog log(file);
        log.write(StepMetrics{.step = 1, .goodput = {.useful = 4, .save = 1}});
        log.write(EndOfStart{1, {.useful = 4, .save = 3}});
    }
    CHECK(contains(contents(file),
                   "\n{\"event\": \"end\", \"step\": 1, \"goodput\": {\"useful\": 4, \"init\": 0, "
                   "\"load\": 0, \"save\": 3, \"eval\": 0, \"lost\": 0}}\n"));
    CHECK(MetricsLog(file).time_spent() == TimeSpent{.useful = 4, .save = 3});
}

TEST_CASE("a torn last line is cut off") {
    const std::string whole = "{\"step\": 1, \"val_loss\": 2}\n";
    const std::string tail =
        GENERATE(as<std::string>(), "", "{\"step\": 2, \"val_loss\": 3}", "{\"step\": 2, \"val",
                 "{", std::string(4096, '\0') + "\n", std::string("{\"st\0\0", 7));
    CAPTURE(tail.size());
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    fill(file, whole + tail);
    MetricsLog log(file);
    CHECK(contents(file) == whole);
    CHECK(log.has_validation(1));
    CHECK_FALSE(log.has_validation(2));
    log.write(RunEvent{.step = 1});
    CHECK(contents(file) == whole + "{\"event\": \"resume\", \"step\": 1}\n");
}

TEST_CASE("a file that is nothing but a torn line becomes empty") {
    const TempFolder folder;
    fill(folder / "metrics.jsonl", "{\"st");
    const MetricsLog log(folder / "metrics.jsonl");
    CHECK(contents(folder / "metrics.jsonl").empty());
}

TEST_CASE("a foreign line is kept and not counted, and a warning names the first") {
    const std::string foreign = GENERATE(
        as<std::string>(), "{\"step\": 2, ", "not JSON", "[1]", "{}", "{\"step\": \"2\"}",
        "{\"step\": 2.5}", "{\"event\": \"pause\", \"step\": 2}", "{\"step\": 2, \"step\": 3}", "");
    const std::string end = GENERATE(as<std::string>(), "\n{\"step\": 3, \"val_loss\": 1}\n", "\n");
    CAPTURE(foreign, end);
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    const std::string before = "{\"step\": 1, \"val_loss\": 1}\n" + foreign + end;
    fill(file, before);
    const std::string said = test::stderr_of([&] {
        MetricsLog log(file);
        CHECK(log.has_validation(1));
        CHECK_FALSE(log.has_validation(2));
        CHECK(log.has_validation(3) == (end != "\n"));
    });
    CHECK(contains(said, file.string() + ", line 2: "));
    CHECK(contents(file) == before);
}

TEST_CASE("foreign words without a line end get one, so that the next line stands alone") {
    const TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    fill(file, "step 1/20\nstep 2/20");
    const std::string said = test::stderr_of([&] { MetricsLog(file).write(RunEvent{.step = 1}); });
    CHECK(contains(said, ", line 1: "));
    CHECK(contains(said, "1 later"));
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
    CHECK(contents(file) == "step 1/20\nstep 2/20\n{\"event\": \"resume\", \"step\": 1}\n");
}

TEST_CASE("keys of a later version are let be") {
    const TempFolder folder;
    fill(folder / "metrics.jsonl",
         "{\"step\": 5, \"val_loss\": 1, \"val_accuracy\": {\"a\": 1}}\n");
    CHECK(MetricsLog(folder / "metrics.jsonl").has_validation(5));
}

TEST_CASE("a log that cannot be opened is an io error that names it") {
    const TempFolder folder;
    const auto file = folder / "missing" / "metrics.jsonl";
    CHECK(contains(test::message_of(ExitCode::io, [&] { MetricsLog log(file); }), file.string()));
}

}  // namespace
}  // namespace gptrain
