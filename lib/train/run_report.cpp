#include "train/run_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "spec/model_cost.h"

namespace gptrain {

RunReport::RunReport(const RunInputs& inputs, const RunDevices& devices, const MemoryPlan& planned)
    : plan_(inputs.plan),
      phase_(inputs.data.phase),
      sources_(inputs.data.blended_validation),
      backend_(devices.backend),
      ranks_(devices.ranks),
      observers_(devices.observers),
      start_times_(devices.start_times),
      comm_metrics_(plan_.mesh, backend_.is_host()),
      high_loss_(plan_.model.vocab, inputs.spec.lr_schedule.warmup_steps),
      device_memory_(planned.on_device()),
      max_memory_(ranks_.max(planned.total())) {}

std::optional<TimeSpent> RunReport::logged_time() const {
    return reports_ ? reports_->log().time_spent() : std::nullopt;
}

bool RunReport::has_validation(std::int64_t step) const {
    return ranks_.max(reports_ && reports_->log().has_validation(step) ? 1 : 0) > 0;
}

bool RunReport::has_tasks(std::int64_t step) const {
    return ranks_.max(reports_ && reports_->log().has_tasks(step) ? 1 : 0) > 0;
}

void RunReport::step_finished(const FinishedStep& finished, const RunState& run) {
    const std::int64_t tokens = finished.samples * plan_.seq_length;
    since_logged_.add(finished.seconds, tokens);
    since_start_.add(finished.seconds, tokens);
    comm_metrics_.add_step(finished.comm);
    report_start(run.step);
    if (!run.skipped()) warn_of_high_loss(run);
    warn_of_slices(run);
    report_other_memory();
    if (reports_) reports_->done(run.step, run.consumed_samples);
}

void RunReport::loaded(std::string name, std::optional<double> repeated) {
    start_.loaded = std::move(name);
    start_.repeated = repeated;
}

void RunReport::report_start(std::int64_t step) {
    if (start_times_.ended()) return;
    start_times_.end();
    start_.step = step;
    start_.seconds = slowest(start_times_.seconds(), ranks_);
    start_.since_failure = seconds_since_failure();
    if (reports_) reports_->start(start_);
}

void RunReport::warn_of_high_loss(const RunState& run) {
    const std::optional<double> mean = high_loss_.add(run.step, run.mean_loss());
    if (!mean || !reports_) return;
    warn("step ", run.step, ": the mean loss of the last ", HighLoss::window, " steps, ",
         fixed(*mean, 4), ", is above that of random guessing, ln(vocab_size) = ",
         fixed(high_loss_.guessing_loss(), 4),
         ": the model is not learning; lower optimizer.lr (now ", run.last.learning_rate,
         "), lengthen lr_schedule.warmup_steps, or check the data");
}

void RunReport::warn_of_slices(const RunState& run) {
    const std::int64_t slices = run.expert_slices.now();
    if (!sliced_steps_.add(slices) || !reports_) return;
    const ExpertsSpec& experts = *plan_.model.experts;
    warn("step ", run.step, ": more than ", SlicedSteps::suitable, " of the last ",
         SlicedSteps::window, " steps computed their experts in slices (now ", slices,
         "), which sends more: raise model.experts.load (now ", experts.load,
         ") as far as memory allows, or balance the experts more, with a larger "
         "model.experts.balance.bias_rate or sequence_aux_weight");
}

void RunReport::report_other_memory() {
    if (other_memory_reported_ || !reports_) return;
    other_memory_reported_ = true;
    const std::int64_t bytes = backend_.bytes_outside_arenas();
    if (bytes == 0) return;
    print("device memory: ", human_bytes(device_memory_), " planned, plus ", human_bytes(bytes),
          " for context, libraries and other programs");
}

std::optional<double> RunReport::offload_wait() const {
    if (plan_.offload == OffloadSpec{}) return std::nullopt;
    const std::optional<double> own = backend_.take_join_seconds();
    if (!own) return std::nullopt;
    constexpr double nanosecond = 1e-9;
    const auto slowest = static_cast<double>(ranks_.max(std::llround(*own / nanosecond)));
    return nanosecond * slowest / static_cast<double>(since_logged_.steps);
}

void RunReport::log(const RunState& run) {
    const double tokens_per_s = since_logged_.tokens_per_s();
    const double flops = tokens_per_s * flops_per_token(plan_);
    StepMetrics metrics;
    metrics.step = run.step;
    metrics.loss = run.mean_loss();
    metrics.mean_loss = run.interval_loss.mean();
    metrics.grad_norm = run.last.grad_norm;
    metrics.lr = run.last.learning_rate;
    metrics.loss_scale = run.loss_scale;
    metrics.tokens_per_s = tokens_per_s;
    metrics.step_time_s = since_logged_.seconds / static_cast<double>(since_logged_.steps);
    metrics.tflops_per_device = flops / static_cast<double>(plan_.mesh.size()) * 1e-12;
    metrics.consumed_samples = run.consumed_samples;
    metrics.consumed_tokens = tokens_in_samples(run.consumed_samples, plan_.seq_length, phase_);
    metrics.memory_bytes = max_memory_;
    metrics.skipped_steps = run.last.skipped_steps;
    metrics.offload_wait_s = offload_wait();
    if (plan_.mesh.expert > 1) {
        metrics.expert_slices = run.expert_slices.now();
        metrics.repeats = run.expert_slices.repeats();
    }
    // If the device computes asynchronously, host time does not measure it.
    if (backend_.is_host() || observers_.stragglers.times_device())
        observers_.stragglers.report(run.step, ranks_, plan_.mesh);
    metrics.measures = reported_measures(run.measures, step_counts(plan_), {});
    metrics.comm = comm_metrics_.take(ranks_);
    metrics.goodput = run.goodput.spent();
    since_logged_ = {};
    if (reports_) reports_->step(metrics);
}

void RunReport::validation(std::int64_t step, const EvaluationSums& sums) {
    evaluation_ = {.step = step, .val_loss = sums.loss.mean()};
    if (!reports_) return;
    reports_->validation(
        {.step = step,
         .val_loss = evaluation_->val_loss,
         .measures = reported_measures(sums.measures, evaluation_counts(plan_), sources_)});
}

void RunReport::event(const RunEvent& event) {
    if (event.kind == RunEvent::Kind::resume) evaluation_.reset();
    if (reports_) reports_->event(event);
}

void RunReport::ended(const RunState& run) {
    if (reports_) reports_->ended(run.step, run.goodput.spent());
}

void RunReport::print_save_interval(double stall, double step) const {
    const double failures = expected_failure_seconds(plan_.mesh.size());
    const double interval = best_save_interval(stall, failures);
    const double steps = std::max(1.0, interval / std::max(step, 1e-9));
    if (steps >= static_cast<double>(plan_.steps)) return;
    print("a checkpoint stalls training for ", fixed(stall, 3), " s; with one failure every ",
          human_time(failures), " (one in 50,000 device hours), saving every ",
          human_time(interval), " (", std::llround(steps), " steps) loses the least time");
}

std::string RunReport::end_summary(const RunState& run,
                                   const std::filesystem::path& checkpoint) const {
    EndSummary summary = {.step = run.step,
                          .mean_loss = run.interval_loss.mean(),
                          .evaluation = evaluation_,
                          .seconds = run.goodput.spent().sum(),
                          .goodput = run.goodput.spent().goodput(),
                          .checkpoint = checkpoint};
    if (since_start_.steps > 0) summary.tokens_per_s = since_start_.tokens_per_s();
    return text("after step ", run.step, ": ", to_text(summary));
}

}  // namespace gptrain
