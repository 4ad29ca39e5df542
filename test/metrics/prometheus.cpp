#include "metrics/prometheus.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "catch.h"
#include "support/captured_stderr.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::contains;
using test::TempFolder;

StepMetrics some_metrics() {
    StepMetrics metrics = {.step = 12, .loss = 2.5, .lr = 6.0e-4};
    metrics.tflops_per_device = 0.25;
    metrics.grad_norm = std::numeric_limits<double>::infinity();
    metrics.consumed_tokens = std::int64_t{1} << 60;
    metrics.comm = {{"tp", 4096, 0.25}, {"dp", 8, std::nullopt}};
    metrics.goodput = {.useful = 1.5, .save = 0.25};
    return metrics;
}

TEST_CASE("each metric that is known is a gauge with its help and type, in base units") {
    const std::string text = prometheus_text("tiny", some_metrics(), Validation{10, 3.5});
    CHECK(contains(text,
                   "# HELP gptrain_step Last logged step.\n# TYPE gptrain_step gauge\n"
                   "gptrain_step{run=\"tiny\"} 12\n"));
    CHECK(contains(text, "\ngptrain_loss{run=\"tiny\"} 2.5\n"));
    CHECK(contains(text, "\ngptrain_learning_rate{run=\"tiny\"} 6e-04\n"));
    CHECK(contains(text, "\ngptrain_device_flops_per_second{run=\"tiny\"} 2.5e+11\n"));
    CHECK(contains(text, "\ngptrain_consumed_tokens{run=\"tiny\"} 1152921504606846976\n"));
    CHECK(contains(text, "\ngptrain_val_loss{run=\"tiny\"} 3.5\n"));
    CHECK(contains(text, "\ngptrain_comm_bytes{run=\"tiny\",axis=\"dp\"} 8\n"));
    CHECK(contains(text, "\ngptrain_comm_seconds{run=\"tiny\",axis=\"tp\"} 0.25\n"));
    CHECK(contains(text, "\ngptrain_goodput_seconds{run=\"tiny\",part=\"save\"} 0.25\n"));
    CHECK_FALSE(contains(text, "grad_norm"));
    CHECK_FALSE(contains(text, "comm_seconds{run=\"tiny\",axis=\"dp\"}"));
}

TEST_CASE("slices of experts are gauges of runs that have them") {
    const std::string text =
        prometheus_text("tiny", {.step = 12, .expert_slices = 2, .repeats = 3}, std::nullopt);
    CHECK(contains(text, "\ngptrain_expert_slices{run=\"tiny\"} 2\n"));
    CHECK(contains(text, "\ngptrain_repeats{run=\"tiny\"} 3\n"));
    CHECK_FALSE(contains(prometheus_text("tiny", some_metrics(), std::nullopt), "expert_slices"));
}

TEST_CASE("results on tasks are labelled with task and metric") {
    const TaskEvaluation tasks = {10, {{"a \"b\"", "acc", 0.5, 0.25}, {"piqa", "acc", 0.75}}};
    const std::string text = prometheus_text("tiny", {.step = 12}, std::nullopt, tasks);
    CHECK(contains(text,
                   "\ngptrain_task{run=\"tiny\",task=\"a \\\"b\\\"\",metric=\"acc\"} 0.5\n"
                   "gptrain_task{run=\"tiny\",task=\"piqa\",metric=\"acc\"} 0.75\n"));
    CHECK_FALSE(contains(prometheus_text("tiny", {.step = 12}, std::nullopt), "gptrain_task"));
}

TEST_CASE("losses by source are labelled with the source") {
    const Validation validation = {
        10, 3.5, {{&measure_rows[0], {{"web", {6, 4}}, {"b\"", {1, 4}}}}}};
    CHECK(contains(prometheus_text("tiny", {.step = 12}, validation),
                   "\n# HELP gptrain_val_loss_by_source Validation loss by source, in nats per "
                   "token.\n# TYPE gptrain_val_loss_by_source gauge\n"
                   "gptrain_val_loss_by_source{run=\"tiny\",source=\"web\"} 1.5\n"
                   "gptrain_val_loss_by_source{run=\"tiny\",source=\"b\\\"\"} 0.25\n"));
}

TEST_CASE("a run's name is escaped in labels") {
    CHECK(contains(prometheus_text("a\"b\\c\nd", {.step = 1}, std::nullopt),
                   "gptrain_step{run=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST_CASE("a file has the newest step and the newest evaluation") {
    const TempFolder folder;
    PrometheusFile file(folder / "run.prom", "tiny");
    const auto has = [&](const StepMetrics& metrics, const std::optional<Validation>& validation) {
        // Read as another program does: an input of this process would not be written again.
        std::ifstream text(folder / "run.prom");
        return std::string(std::istreambuf_iterator<char>(text), {}) ==
               prometheus_text("tiny", metrics, validation);
    };
    file.write(Validation{0, 4.5});
    CHECK_FALSE(std::filesystem::exists(folder / "run.prom"));
    file.write(StepMetrics{.step = 1});
    CHECK(has({.step = 1}, Validation{0, 4.5}));
    file.write(Validation{1, 3.5});
    CHECK(has({.step = 1}, Validation{1, 3.5}));
    file.write(StepMetrics{.step = 2});
    CHECK(has({.step = 2}, Validation{1, 3.5}));
}

TEST_CASE("a file that cannot be written is one warning") {
    const TempFolder folder;
    const auto path = folder / "missing" / "run.prom";
    const std::string said = test::stderr_of([&] {
        PrometheusFile file(path, "tiny");
        file.write(StepMetrics{.step = 1});
        file.write(StepMetrics{.step = 2});
    });
    CHECK(contains(said, "logging.prometheus: " + path.string()));
    CHECK(contains(said, "training continues"));
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

}  // namespace
}  // namespace gptrain
