#include "metrics/metrics_line.h"

#include <limits>

#include "base/json.h"
#include "catch.h"

namespace gptrain {
namespace {

StepMetrics some_metrics() {
    StepMetrics metrics = {.step = 12, .loss = 0.1 + 0.2, .mean_loss = 2.5, .lr = 6.0e-4};
    metrics.consumed_tokens = std::numeric_limits<std::int64_t>::max();
    metrics.comm = {{"tp", 4096, 0.25}, {"pp", 0, std::nullopt}};
    metrics.goodput = {.useful = 1.5, .save = 0.25};
    return metrics;
}

/// Reads a line that must be one of a log.
template <class Kind>
Kind read(std::string_view line) {
    CAPTURE(line);
    const auto read = parse_metrics_line(line);
    REQUIRE((read && std::holds_alternative<Kind>(*read)));
    return std::get<Kind>(*read);
}

TEST_CASE("a step's line reads back as what was written, also with other blanks and unknown keys") {
    const std::string line = to_text(some_metrics());
    const std::string form = GENERATE(as<std::string>(), "as written", "compact", "longer");
    Json json = parse_json(line, "line");
    if (form == "longer") json["accuracy"] = {{"task", 0.5}};
    const StepMetrics metrics = read<StepMetrics>(form == "as written" ? line : to_line(json));
    CHECK(to_text(metrics) == line);
    CHECK(metrics.loss == 0.1 + 0.2);
    CHECK_FALSE(metrics.grad_norm);
    REQUIRE(metrics.comm.size() == 2);
    CHECK(metrics.comm[0].axis == "tp");
    CHECK(metrics.comm[0].seconds == 0.25);
    CHECK_FALSE(metrics.comm[1].seconds);
    CHECK(metrics.goodput == some_metrics().goodput);
}

TEST_CASE("a line of an older version lacks keys") {
    const auto metrics = read<StepMetrics>("{\"step\": 3, \"loss\": 2}");
    CHECK(metrics.step == 3);
    CHECK(metrics.loss == 2.0);
    CHECK_FALSE(metrics.mean_loss);
    CHECK(metrics.goodput == TimeSpent{});
}

TEST_CASE("evaluations and events read back as what was written") {
    CHECK(read<Validation>(to_text(Validation{100, 2.25})).val_loss == 2.25);
    CHECK_FALSE(read<Validation>("{\"step\": 100, \"val_loss\": null}").val_loss);
    const RunEvent event = GENERATE(
        RunEvent{}, RunEvent{.step = 40, .rolled_back_from = 45},
        RunEvent{.kind = RunEvent::Kind::data, .step = 40, .consumed_samples = 6400},
        RunEvent{.kind = RunEvent::Kind::skip, .step = 7, .reason = "\"a\"\n\\ \xE2\x82\xAC"},
        RunEvent{.kind = RunEvent::Kind::save_failed, .step = 7, .reason = "full"});
    const auto again = read<RunEvent>(to_text(event));
    CHECK(again.kind == event.kind);
    CHECK(again.step == event.step);
    CHECK(again.rolled_back_from == event.rolled_back_from);
    CHECK(again.consumed_samples == event.consumed_samples);
    CHECK(again.reason == event.reason);
}

TEST_CASE("losses by source read back as what was written") {
    const std::vector<WeightedSum> sums = {{6, 4}, {0, 0}, {2, 4}, {3, 2000000}};
    const std::vector<std::string> names = {"web", "none", "\"a\" b", "web"};
    const Validation written = {100, 2.25, reported_measures(sums, {.sources = 4}, names)};
    const std::string line = to_text(written);
    CHECK(line == R"({"step": 100, "val_loss": 2.25, "val_loss_by_source": )"
                  R"({"web": {"loss": 4.499991000018e-06, "tokens": 2000004}, )"
                  R"("\"a\" b": {"loss": 0.5, "tokens": 4}}})");
    const auto again = read<Validation>(line);
    REQUIRE(again.measures.size() == 1);
    const MeasuredNumber* web = find_number(again.measures, measure_rows[0], "web");
    REQUIRE(web != nullptr);
    CHECK(web->value.weight == 2000004);
    CHECK(web->value.mean() == Approx(9.0 / 2000004));
    CHECK(find_number(again.measures, measure_rows[0], "none") == nullptr);
    CHECK(reported_measures(sums, {.sources = 4}, {}).empty());
}

TEST_CASE("a step's measures read back as well") {
    StepMetrics metrics = some_metrics();
    metrics.measures = {{&measure_rows[0], {{"a", {3, 2}}}}};
    const std::string line = to_text(metrics);
    CHECK(
        line.find(R"("skipped_steps": null, "loss_by_source": {"a": {"loss": 1.5, "tokens": 2}}, )"
                  R"("comm")") != line.npos);
    CHECK(to_text(read<StepMetrics>(line)) == line);
}

TEST_CASE("a step's line has slices of experts and waits for the host only where they are known") {
    StepMetrics metrics = some_metrics();
    CHECK(to_text(metrics).find("expert_slices") == std::string::npos);
    CHECK(to_text(metrics).find("offload") == std::string::npos);
    metrics.offload_wait_s = 0.25;
    metrics.expert_slices = 2;
    metrics.repeats = 3;
    const std::string line = to_text(metrics);
    CHECK(line.find(R"("skipped_steps": null, "offload_wait_s": 0.25, "expert_slices": 2, )"
                    R"("repeats": 3, "comm")") != line.npos);
    const auto again = read<StepMetrics>(line);
    CHECK(again.offload_wait_s == 0.25);
    CHECK(again.expert_slices == 2);
    CHECK(again.repeats == 3);
    CHECK(to_text(again) == line);
}

TEST_CASE("a step's line of an older version has a key more") {
    std::string line = to_text(some_metrics());
    line.insert(line.find("\"consumed_samples\""), "\"mfu\": null, ");
    CHECK(to_text(read<StepMetrics>(line)) == to_text(some_metrics()));
}

TEST_CASE("results on tasks read back as what was written, without what is unknown") {
    const TaskEvaluation written = {
        100, {{"piqa", "acc", 0.75, 0.125}, {"piqa", "acc_norm", 0.5}, {"a \"b\"", "acc", 1}}};
    const std::string line = to_text(written);
    CHECK(line == R"({"step": 100, "tasks": {"piqa":{"acc":0.75,"acc_stderr":0.125,"acc_norm":0.5,)"
                  R"("acc_norm_stderr":null},"a \"b\"":{"acc":1.0,"acc_stderr":null}}})");
    const auto again = read<TaskEvaluation>(line);
    CHECK(again.step == 100);
    CHECK(to_text(again) == line);
    const auto unknown = read<TaskEvaluation>(
        to_text(TaskEvaluation{7, {{"a", "acc", std::numeric_limits<double>::quiet_NaN()}}}));
    CHECK(unknown.step == 7);
    CHECK(unknown.metrics.empty());
}

TEST_CASE("a line whose values have other types is none of a log") {
    const std::string line = GENERATE(
        as<std::string>(), "{\"step\": 1, \"loss\": \"2\"}", "{\"step\": 1, \"loss\": 1e400}",
        "{\"step\": 1, \"comm\": 3}", "{\"step\": 1, \"comm\": {\"tp\": {\"bytes\": 1.5}}}",
        "{\"step\": 1, \"goodput\": {\"useful\": 1}}", "{\"event\": \"pause\", \"step\": 1}",
        "{\"event\": \"skip\", \"step\": 1, \"reason\": 3}", "{\"val_loss\": 1}",
        "{\"step\": 1, \"tasks\": [3]}", "{\"tasks\": {\"a\": {\"acc\": 1}}}",
        "{\"step\": 1, \"tasks\": {\"a\": {\"acc\": true}}}", "{\"step\": 9223372036854775808}",
        "{\"step\": 1, \"loss\": nan}");
    CAPTURE(line);
    CHECK_FALSE(parse_metrics_line(line));
}

TEST_CASE("a written line with something behind it or cut off is none of a log") {
    const std::string line = to_text(some_metrics());
    CHECK_FALSE(parse_metrics_line(line + "}"));
    for (std::size_t length = 0; length < line.size(); ++length)
        CHECK_FALSE(parse_metrics_line(line.substr(0, length)));
}

}  // namespace
}  // namespace gptrain
