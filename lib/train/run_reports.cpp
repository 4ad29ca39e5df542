// What a run prints about its steps, the cost of its checkpoints, and its end.
#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "train/run.h"

namespace gptrain {

void Run::log_step() {
    const double tokens_per_s = since_logged_.tokens_per_s();
    const double flops = tokens_per_s * flops_per_token(plan_.model, plan_.seq_length);
    StepMetrics metrics;
    metrics.step = step_;
    metrics.loss = mean_loss();
    metrics.mean_loss = interval_loss_.mean();
    metrics.grad_norm = state_.grad_norm;
    metrics.lr = state_.learning_rate;
    metrics.loss_scale = loss_scale_;
    metrics.tokens_per_s = tokens_per_s;
    metrics.step_time_s = since_logged_.seconds / static_cast<double>(since_logged_.steps);
    metrics.tflops_per_device = flops / static_cast<double>(plan_.mesh.size()) * 1e-12;
    metrics.consumed_samples = consumed_samples_;
    metrics.consumed_tokens = consumed_samples_ * plan_.seq_length;
    metrics.memory_bytes = max_memory_;
    metrics.skipped_steps = state_.skipped_steps;
    // If the device computes asynchronously, host time does not measure it.
    if (engine_->backend().is_host()) observers_.stragglers.report(step_, ranks_, plan_.mesh);
    metrics.comm = comm_metrics_.take(ranks_);
    metrics.goodput = goodput_.spent();
    since_logged_ = {};
    if (reports_) reports_->step(metrics);
}

void Run::report_other_memory() {
    if (other_memory_reported_ || !directory_) return;
    other_memory_reported_ = true;
    const std::int64_t bytes = engine_->backend().bytes_outside_arenas();
    if (bytes == 0) return;
    print("device memory: ", human_bytes(cost_.memory.on_device()), " planned, plus ",
          human_bytes(bytes), " for context, libraries and other programs");
}

void Run::print_save_interval(double stall) const {
    const double failures = expected_failure_seconds(plan_.mesh.size());
    const double interval = best_save_interval(stall, failures);
    const double steps = std::max(1.0, interval / std::max(slowest_step_, 1e-9));
    if (steps >= static_cast<double>(plan_.steps)) return;
    print("a checkpoint stalls training for ", fixed(stall, 3), " s; with one failure every ",
          human_time(failures), " (one in 50,000 device hours), saving every ",
          human_time(interval), " (", std::llround(steps), " steps) loses the least time");
}

std::string Run::end_summary() const {
    EndSummary summary = {.step = step_,
                          .mean_loss = interval_loss_.mean(),
                          .evaluation = evaluation_,
                          .seconds = goodput_.spent().sum(),
                          .goodput = goodput_.spent().goodput(),
                          .checkpoint = checkpoint_};
    if (since_start_.steps > 0) summary.tokens_per_s = since_start_.tokens_per_s();
    return text("after step ", step_, ": ", to_text(summary));
}

ExitCode Run::finished() {
    print("finished ", end_summary());
    return ExitCode::done;
}

ExitCode Run::stopped(Request why) {
    print("stopped (", name_of(why), ") ", end_summary(),
          "; the same command continues from there");
    return exit_code_of(why);
}

}  // namespace gptrain
