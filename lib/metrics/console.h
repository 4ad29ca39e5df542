// The console output of a run: one line per logged step and, on a terminal, a live bar below them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metrics_line.h"
#include "spec/run_plan.h"

namespace gptrain {

/// "step   120/1000  mean_loss 4.1234  grad_norm 1.235  lr 6.00e-04  12345 tok/s  0.12 TFLOP/s  3
/// min 05 s left". Unknown values are left out. If there is no mean, because every update since the
/// last line was skipped, the step's own loss takes its place.
std::string step_line(const StepMetrics& metrics, std::int64_t steps,
                      std::optional<double> seconds_left);

/// "step   100/1000  val_loss 5.2012  perplexity 181.5"
std::string validation_line(std::int64_t step, std::int64_t steps, double val_loss);

/// "step   100/1000  val_loss_by_source  books 5.1044  web 5.3120": a line for each measure, and
/// one for all those by layer: "step   100/1000  expert_load 1.31 (1.72 in layer 5)  ...".
/// `prefix`: of their names.
std::vector<std::string> measure_lines(std::int64_t step, std::int64_t steps,
                                       std::string_view prefix,
                                       const std::vector<ReportedMeasure>& measures);

/// "step   100/1000  hellaswag  acc 0.3125 +- 0.0046  acc_norm 0.3611 +- 0.0048": a line for each
/// task.
std::vector<std::string> task_lines(const TaskEvaluation& evaluation, std::int64_t steps);

/// "[######------------------]  27%  step 27/100  3 s left", narrower than `columns` columns. In a
/// narrow terminal the bar shrinks, then the time left is dropped, then the bar.
std::string progress_bar(std::string_view what, std::int64_t done, std::int64_t total,
                         std::optional<double> seconds_left, std::int64_t columns);

/// The time left in a run at `seconds_per_sample`. `samples`: consumed after `step`.
double seconds_left(double seconds_per_sample, const BatchSchedule& batch, std::int64_t steps,
                    std::int64_t step, std::int64_t samples);

/// Prints the lines of a run with `steps` steps that starts after `first_samples` samples.
class Console {
public:
    Console(std::int64_t first_samples, std::int64_t steps, const BatchSchedule& batch);

    /// Moves the bar. Call it after every step, with the samples consumed so far.
    void update(std::int64_t step, std::int64_t samples);
    /// Prints the step's lines. Call it after every logged step.
    void step(const StepMetrics& metrics);
    /// Advances the evaluation's progress bar.
    void evaluating(std::int64_t done, std::int64_t total);
    void validation(const Validation& validation);
    void tasks(const TaskEvaluation& evaluation);

private:
    using Clock = std::chrono::steady_clock;

    std::optional<double> seconds_left(std::int64_t step, std::int64_t samples) const;
    void show(std::string_view what, std::int64_t done, std::int64_t total,
              std::optional<double> seconds_left);

    std::int64_t first_samples_;
    std::int64_t steps_;
    BatchSchedule batch_;
    Clock::time_point started_;
    Clock::time_point last_shown_;
};

}  // namespace gptrain
