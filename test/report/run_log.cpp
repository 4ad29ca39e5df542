#include "report/run_log.h"

#include <limits>

#include "base/text.h"
#include "catch.h"
#include "report/logs.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::log_of;

std::vector<std::int64_t> steps_of(const auto& lines) {
    std::vector<std::int64_t> steps;
    for (const auto& line : lines)
        steps.push_back(line.step);
    return steps;
}
using Steps = std::vector<std::int64_t>;

std::string step_line(std::int64_t step, double loss = 2) {
    return text("{\"step\": ", step, ", \"loss\": ", loss, "}");
}

TEST_CASE("steps and evaluations after a resume's step no longer count, and are kept apart") {
    const RunLog log = log_of({"{\"step\": 10, \"loss\": 5}", "{\"step\": 20, \"loss\": 4}",
                               "{\"step\": 20, \"val_loss\": 4.5}", "{\"step\": 30, \"loss\": 9}",
                               "{\"step\": 30, \"val_loss\": 9.5}",
                               "{\"event\": \"resume\", \"step\": 20, \"rolled_back_from\": 30}",
                               "{\"step\": 30, \"loss\": 3}"});
    CHECK(steps_of(log.steps) == Steps{10, 20, 30});
    CHECK(log.steps.back().loss == 3.0);
    CHECK(steps_of(log.validations) == Steps{20});
    REQUIRE(log.undone.size() == 1);
    CHECK(steps_of(log.undone[0]) == Steps{30});
    CHECK(log.undone[0][0].loss == 9.0);
    REQUIRE(log.events.size() == 1);
    CHECK(log.events[0].rolled_back_from == 30);
}

TEST_CASE("of two lines for one step the later one counts") {
    const RunLog log = log_of({"{\"step\": 1, \"loss\": 5}", "{\"step\": 1, \"loss\": 4}",
                               "{\"step\": 1, \"val_loss\": 3}", "{\"step\": 1, \"val_loss\": 2}"});
    REQUIRE(log.steps.size() == 1);
    CHECK(log.steps[0].loss == 4.0);
    REQUIRE(log.validations.size() == 1);
    CHECK(log.validations[0].val_loss == 2.0);
}

TEST_CASE("the time account is the newest, of a step or of a start's end") {
    const std::string rest = "\"init\": 1, \"load\": 0, \"save\": 2, \"eval\": 0, \"lost\": 0}}";
    RunLog log = log_of({"{\"step\": 1, \"goodput\": {\"useful\": 5, " + rest});
    CHECK(log.time_spent.useful == 5);
    log.add("{\"event\": \"end\", \"step\": 2, \"goodput\": {\"useful\": 6, " + rest);
    CHECK(log.time_spent == TimeSpent{.useful = 6, .init = 1, .save = 2});
    CHECK(steps_of(log.steps) == Steps{1});
    CHECK(log.events.empty());
    CHECK(log.unknown_lines == 0);
    log.add("{\"step\": 3, \"loss\": 2}");
    CHECK(log.time_spent.useful == 6);
}

TEST_CASE("the largest steps do not overflow") {
    const std::string largest = text(std::numeric_limits<std::int64_t>::max());
    RunLog log = log_of({"{\"step\": 5}"});
    log.add("{\"event\": \"resume\", \"step\": " + largest + "}");
    CHECK(steps_of(log.steps) == Steps{5});
    log.add("{\"event\": \"resume\", \"step\": -" + largest + "}");
    CHECK(log.steps.empty());
}

TEST_CASE("lines of other programs are counted and ignored") {
    const RunLog log = log_of({"step 1/20  loss 4.1", "{\"step\": 1}", "", "[]"});
    CHECK(steps_of(log.steps) == Steps{1});
    CHECK(log.unknown_lines == 3);
}

TEST_CASE("a file is read as it grows, whole lines only, and anew if it became shorter") {
    const test::TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    test::fill(file, step_line(1) + "\n{\"step\": ");
    RunLogReader reader(file);
    CHECK(steps_of(reader.update().steps) == Steps{1});
    test::fill(file, step_line(1) + "\n" + step_line(2) + "\n" + step_line(3) + "\n{");
    CHECK(steps_of(reader.update().steps) == Steps{1, 2, 3});
    CHECK(steps_of(reader.update().steps) == Steps{1, 2, 3});
    test::fill(file, step_line(7) + "\n");
    CHECK(steps_of(reader.update().steps) == Steps{7});
    CHECK(reader.update().unknown_lines == 0);
}

TEST_CASE("a line without end takes no more than a megabyte") {
    const test::TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    test::fill(file, std::string(5 << 20, '{') + "\n" + step_line(2) + "\n");
    RunLogReader reader(file);
    CHECK(steps_of(reader.update().steps) == Steps{2});
    CHECK(reader.update().unknown_lines == 1);
}

}  // namespace
}  // namespace gptrain
