#include "train/console.h"

#include <cmath>
#include <limits>

#include "catch.h"

namespace gptrain {
namespace {

StepMetrics metrics_of_step(std::int64_t step) {
    StepMetrics metrics;
    metrics.step = step;
    metrics.loss = 4.12345;
    metrics.grad_norm = 1.23456;
    metrics.lr = 6.0e-4;
    metrics.tokens_per_s = 12344.6;
    return metrics;
}

TEST_CASE("a step's line says what is known") {
    StepMetrics metrics = metrics_of_step(20);
    CHECK(step_line(metrics, 1000, std::nullopt) ==
          "step   20/1000  loss 4.1235  grad_norm 1.235  lr 6.00e-04  12345 tok/s");
    metrics.tflops_per_device = 0.1234;
    metrics.mfu = 0.337;
    CHECK(step_line(metrics, 1000, 185.0) ==
          "step   20/1000  loss 4.1235  grad_norm 1.235  lr 6.00e-04  12345 tok/s  0.123 TFLOP/s "
          "(34% of peak)  3 min 05 s left");
    CHECK(step_line({1000}, 1000, std::nullopt) == "step 1000/1000");
}

TEST_CASE("a loss that is not finite is shown as such") {
    StepMetrics metrics;
    metrics.step = 1;
    metrics.loss = std::nan("");
    metrics.grad_norm = std::numeric_limits<double>::infinity();
    CHECK(step_line(metrics, 9, std::nullopt) == "step 1/9  loss nan  grad_norm inf");
}

TEST_CASE("a validation line has the perplexity beside the loss") {
    CHECK(validation_line(100, 1000, std::log(20.0)) ==
          "step  100/1000  val_loss 2.9957  perplexity 20");
}

TEST_CASE("the bar is full at the end and fits a narrow terminal") {
    CHECK(bar("step", 0, 100, std::nullopt) == "[------------------------]   0%  step 0/100");
    CHECK(bar("step", 50, 100, 3.0) == "[############------------]  50%  step 50/100  3 s left");
    CHECK(bar("step", 100, 100, 0.0) == "[########################] 100%  step 100/100  0 s left");
    CHECK(bar("step", 999999999999, 9999999999999, 1e9).size() <= 79);
}

}  // namespace
}  // namespace gptrain
