#include "report/watch_view.h"

#include <algorithm>

#include "base/text.h"
#include "catch.h"
#include "report/dot_canvas.h"
#include "report/logs.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

RunLog falling_loss() {
    RunLog log;
    for (int step = 1; step <= 200; ++step)
        log.add(text("{\"step\": ", step, ", \"loss\": ", 8 - 0.02 * step,
                     ", \"grad_norm\": 1, \"tokens_per_s\": 1000, \"step_time_s\": 0.5}"));
    log.add("{\"step\": 100, \"val_loss\": 6.5}");
    log.add("{\"event\": \"skip\", \"step\": 150, \"reason\": \"a\\u001b[2J\\nb\"}");
    return log;
}

std::int64_t characters(std::string_view line) {
    return std::count_if(line.begin(), line.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

TEST_CASE("a view fits into its terminal, whatever the size") {
    const std::int64_t columns = GENERATE(1, 10, 40, 80, 300);
    const std::int64_t rows = GENERATE(1, 5, 12, 24, 100);
    const bool unicode = GENERATE(true, false);
    CAPTURE(columns, rows, unicode);
    const RunLog log = falling_loss();
    const RunSpec spec = test::spec_of({"training.steps=400"});
    const std::string label = "runs/t\xC3\xA4gliches";
    const auto lines = watch_view({label, log, &spec}, {columns, rows, unicode});
    CHECK(std::ssize(lines) < std::max<std::int64_t>(rows, 2));
    for (const std::string& line : lines) {
        CHECK(characters(line) <= columns);
        CHECK(line.find('\x1b') == line.npos);
        CHECK(line.find('\n') == line.npos);
    }
}

TEST_CASE("a view has progress, values, charts and events") {
    const RunLog log = falling_loss();
    const RunSpec spec = test::spec_of({"training.steps=400"});
    const std::string label = "runs/tiny";
    const auto lines = watch_view({label, log, &spec}, {80, 30, false});
    std::string view;
    for (const std::string& line : lines)
        view += line + '\n';
    for (const char* words :
         {"runs/tiny\n", "step 200/400", "1 min 40 s left", "mean_loss 4.0000", "val_loss 6.5000",
          "1,000 tok/s", "gradient norm", "step 150: update skipped: a\\x1b[2J b\n", "    7.98 *"})
        CHECK(test::contains(view, words));
}

TEST_CASE("the time left counts samples, not steps, while the batch ramps up") {
    RunLog log;
    // A step of 2 sequences of 16 tokens takes 0.5 s.
    log.add("{\"step\": 10, \"tokens_per_s\": 64, \"step_time_s\": 0.5, \"consumed_samples\": 20}");
    const RunSpec spec = test::spec_of({"training.steps=30", "training.global_batch_size=8",
                                        "training.rampup={start: 2, increment: 6, samples: 40}"});
    const std::string label = "runs/tiny";
    // 20 more samples in 10 steps of 2, and 10 steps of 8, at 0.25 s each.
    CHECK(test::contains(watch_view({label, log, &spec}, {80, 30, false})[1], "25 s left"));
}

TEST_CASE("a view has the first metric of each task that was measured last") {
    const RunLog log = test::log_of({"{\"step\": 1, \"loss\": 2}",
                                     "{\"step\": 1, \"tasks\": {\"piqa\": {\"acc\": 0.5, "
                                     "\"acc_norm\": 1}, \"arc\": {\"acc\": 0.25}}}"});
    const std::string label = "runs/tiny";
    CHECK(watch_view({label, log, nullptr}, {})[3] == "piqa acc 0.5  arc acc 0.25");
}

TEST_CASE("a value for which there is no room is left out whole") {
    const RunLog log = test::log_of(
        {"{\"step\": 5, \"mean_loss\": 4.231, \"grad_norm\": 0.7044, \"lr\": 7.95e-4, "
         "\"tokens_per_s\": 3012, \"goodput\": {\"useful\": 95.7, \"init\": 4.3, \"load\": 0, "
         "\"save\": 0, \"eval\": 0, \"lost\": 0}}",
         "{\"step\": 5, \"tasks\": {\"t\xC3\xA4glich\": {\"acc\": 0.5}, \"arc\": {\"acc\": "
         "0.25}}}"});
    const std::string label = "runs/tiny";
    const auto view = [&](std::int64_t columns) {
        return watch_view({label, log, nullptr}, {columns, 24, false});
    };
    CHECK(view(76)[2] ==
          "mean_loss 4.2310  grad_norm 0.7044  lr 7.95e-04  3,012 tok/s  goodput 95.7 %");
    CHECK(view(75)[2] == "mean_loss 4.2310  grad_norm 0.7044  lr 7.95e-04  3,012 tok/s");
    CHECK(view(33)[2] == "mean_loss 4.2310  lr 7.95e-04");
    CHECK(view(29)[3] == "t\xC3\xA4glich acc 0.5  arc acc 0.25");
    CHECK(view(28)[3] == "t\xC3\xA4glich acc 0.5");
    CHECK(view(12)[3] == "arc acc 0.25");
    CHECK(view(5)[2].empty());
}

TEST_CASE("a run without a step says so") {
    const std::string label = "runs/tiny";
    const auto lines = watch_view({label, {}, nullptr}, {});
    REQUIRE(lines.size() == 2);
    CHECK(lines[1] == "no step is logged yet");
}

TEST_CASE("dots become Braille patterns") {
    DotCanvas canvas(2, 1, true);
    canvas.set(0, 0);
    canvas.set(1, 3);
    canvas.set(2, 0);
    canvas.set(99, 99);
    CHECK(canvas.row(0) == "\xE2\xA2\x81\xE2\xA0\x81");  // U+2881, U+2801
    DotCanvas plain(3, 3, false);
    plain.line(0, 0, 2, 2);
    CHECK(plain.row(0) == "*  ");
    CHECK(plain.row(1) == " * ");
    CHECK(plain.row(2) == "  *");
}

}  // namespace
}  // namespace gptrain
