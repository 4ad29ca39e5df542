#include "metrics/console.h"

#include <cmath>
#include <limits>

#include "catch.h"

namespace gptrain {
namespace {

StepMetrics metrics_of_step(std::int64_t step) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 3.9;
    metrics.mean_loss = 4.12345;
    metrics.grad_norm = 1.23456;
    metrics.lr = 6.0e-4;
    metrics.tokens_per_s = 12344.6;
    return metrics;
}

TEST_CASE("a step's line says what is known") {
    StepMetrics metrics = metrics_of_step(20);
    CHECK(step_line(metrics, 1000, std::nullopt) ==
          "step   20/1000  mean_loss 4.1235  grad_norm 1.235  lr 6.00e-04  12345 tok/s");
    metrics.tflops_per_device = 0.1234;
    CHECK(step_line(metrics, 1000, 185.0) ==
          "step   20/1000  mean_loss 4.1235  grad_norm 1.235  lr 6.00e-04  12345 tok/s  0.123 "
          "TFLOP/s  3 min 05 s left");
    CHECK(step_line({1000}, 1000, std::nullopt) == "step 1000/1000");
}

TEST_CASE("a step's line has slices of experts once there are several, or a repeat") {
    StepMetrics metrics = {.step = 7, .expert_slices = 1, .repeats = 0};
    CHECK(step_line(metrics, 9, 5.0) == "step 7/9  5 s left");
    metrics.repeats = 3;
    CHECK(step_line(metrics, 9, 5.0) == "step 7/9  expert_slices 1  repeats 3  5 s left");
    metrics = {.step = 7, .expert_slices = 2, .repeats = 0};
    CHECK(step_line(metrics, 9, std::nullopt) == "step 7/9  expert_slices 2  repeats 0");
}

TEST_CASE("a loss that is not finite is shown as such where there is no mean") {
    StepMetrics metrics;
    metrics.step = 1;
    metrics.loss = std::nan("");
    metrics.grad_norm = std::numeric_limits<double>::infinity();
    CHECK(step_line(metrics, 9, std::nullopt) == "step 1/9  loss nan  grad_norm inf");
}

TEST_CASE("a validation line has the perplexity after the loss") {
    CHECK(validation_line(100, 1000, std::log(20.0)) ==
          "step  100/1000  val_loss 2.9957  perplexity 20");
}

TEST_CASE("measures of layers share a line with the mean and the largest of each") {
    const auto of = [](Measure measure) {
        return &measure_rows[static_cast<std::size_t>(measure)];
    };
    const std::vector<ReportedMeasure> measures = {
        {of(Measure::loss_by_source), {{"web", {6, 4}}, {"books", {2, 4}}}},
        {of(Measure::expert_load), {{"0", {1, 1}}, {"2", {4, 2}}, {"3", {3, 2}}}},
        {of(Measure::unused_experts), {{"0", {0, 1}}, {"2", {0, 2}}, {"3", {6, 2}}}}};
    CHECK(measure_lines(5, 10, "", measures) ==
          std::vector<std::string>{
              "step  5/10  loss_by_source  web 1.5000  books 0.5000",
              "step  5/10  expert_load 1.5 (2 in layer 2)  unused_experts 1 (3 in layer 3)"});
}

TEST_CASE("each task has a line with its metrics and their standard errors") {
    const TaskEvaluation evaluation = {
        50, {{"piqa", "acc", 0.75, 0.0125}, {"piqa", "acc_norm", 0.5}, {"lambada", "acc", 0.25}}};
    CHECK(task_lines(evaluation, 100) ==
          std::vector<std::string>{"step  50/100  piqa  acc 0.75 +- 0.013  acc_norm 0.5",
                                   "step  50/100  lambada  acc 0.25"});
}

TEST_CASE("the time left follows from the samples left, however many a step has") {
    const BatchSchedule even = {.global_batch_size = 8, .rampup = {}};
    CHECK(seconds_left(0.25, even, 30, 10, 80) == 40);
    const BatchSchedule ramp = {.global_batch_size = 8,
                                .rampup = {.start = 2, .increment = 6, .samples = 40}};
    CHECK(seconds_left(0.25, ramp, 30, 10, 20) == 25);
    CHECK(seconds_left(0.25, ramp, 30, 30, 120) == 0);
    CHECK(seconds_left(0.25, ramp, 20, 30, 120) == 0);
}

TEST_CASE("the bar is full at the end") {
    CHECK(progress_bar("step", 0, 100, std::nullopt, 80) ==
          "[------------------------]   0%  step 0/100");
    CHECK(progress_bar("step", 50, 100, 3.0, 80) ==
          "[############------------]  50%  step 50/100  3 s left");
    CHECK(progress_bar("step", 100, 100, 0.0, 80) ==
          "[########################] 100%  step 100/100  0 s left");
}

TEST_CASE("in a narrow terminal the bar is shorter, then the time left goes, then the bar") {
    CHECK(progress_bar("step", 50, 100, 3.0, 40) == "[####-----]  50%  step 50/100  3 s left");
    CHECK(progress_bar("step", 5000, 10000, 185.0, 40) ==
          "[#######--------]  50%  step 5000/10000");
    CHECK(progress_bar("evaluating", 50, 100, std::nullopt, 30) == " 50%  evaluating 50/100");
    CHECK(progress_bar("step", 50, 100, 3.0, 12) == " 50%  step ");
}

TEST_CASE("no bar reaches the last column") {
    const std::int64_t columns = GENERATE(1, 2, 20, 33, 40, 41, 60, 80, 200);
    const std::int64_t total = GENERATE(1, 9, 1000, 123456, 9999999999999);
    const std::optional<double> left =
        GENERATE(as<std::optional<double>>(), std::nullopt, 3.0, 1e9);
    CAPTURE(columns, total);
    for (const std::int64_t done : {std::int64_t{0}, total / 2, total}) {
        CHECK(progress_bar("step", done, total, left, columns).size() <
              static_cast<std::size_t>(columns));
        CHECK(progress_bar("evaluating", done, total, left, columns).size() <
              static_cast<std::size_t>(columns));
    }
}

}  // namespace
}  // namespace gptrain
