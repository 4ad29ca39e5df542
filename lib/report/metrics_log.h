// metrics.jsonl: one JSON object a line, only ever appended to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "report/comm_metrics.h"
#include "report/goodput.h"

namespace gptrain {

/// What a logged step says. A value that is not known stays empty and is written as null, as is one
/// that is not finite.
struct StepMetrics {
    std::int64_t step = 0;                 ///< counted from 1
    std::optional<double> loss = {};       ///< of this step alone
    std::optional<double> mean_loss = {};  ///< of the steps since the last interval ended
    std::optional<double> grad_norm = {};  ///< before clipping
    std::optional<double> lr = {};
    std::optional<double> loss_scale = {};
    std::optional<double> tokens_per_s = {};
    std::optional<double> step_time_s = {};
    std::optional<double> tflops_per_device = {};
    std::optional<double> mfu = {};  ///< model FLOP/s over the device's peak, 0 to 1
    std::optional<std::int64_t> consumed_samples = {};
    std::optional<std::int64_t> consumed_tokens = {};
    std::optional<std::int64_t> memory_bytes = {};
    std::optional<std::int64_t> skipped_steps = {};
    std::vector<CommMetric> comm = {};
    TimeSpent goodput = {};
};

/// Calls visit(name, optional value) for every metric that is one number, but the step, in the
/// order of the file.
void for_each_metric(const StepMetrics& metrics, const auto& visit) {
    visit("loss", metrics.loss);
    visit("mean_loss", metrics.mean_loss);
    visit("grad_norm", metrics.grad_norm);
    visit("lr", metrics.lr);
    visit("loss_scale", metrics.loss_scale);
    visit("tokens_per_s", metrics.tokens_per_s);
    visit("step_time_s", metrics.step_time_s);
    visit("tflops_per_device", metrics.tflops_per_device);
    visit("mfu", metrics.mfu);
    visit("consumed_samples", metrics.consumed_samples);
    visit("consumed_tokens", metrics.consumed_tokens);
    visit("memory_bytes", metrics.memory_bytes);
    visit("skipped_steps", metrics.skipped_steps);
}

/// The log of one run. Three kinds of lines:
///   {"step": 1, "loss": 9.01, ..., "comm": {"dp": {"bytes": 8, "seconds": 1}}, "goodput": {...}}
///   {"step": 100, "val_loss": 5.2}
///   {"event": "resume", "step": 100}
/// Numbers have the shortest form that reads back the same. Of two lines of one kind for one step
/// the later counts. Each line reaches the file in one write; `sync` makes what was written
/// durable.
class MetricsLog {
public:
    /// Opens `file`, or creates it. A torn last line (the end of a crash) is cut off. Other lines
    /// that are not one of the three kinds are kept and do not count; one warning names the first.
    /// Keys that this program does not know are let be.
    explicit MetricsLog(const std::filesystem::path& file);
    /// Syncs, so that what was logged survives a run that ends by an error.
    ~MetricsLog();
    MetricsLog(const MetricsLog&) = delete;
    MetricsLog& operator=(const MetricsLog&) = delete;

    /// Whether the log holds an evaluation of the weights after `step` steps that still counts: one
    /// that a later resume from an earlier step did not undo.
    bool has_validation(std::int64_t step) const { return validations_.contains(step); }

    /// What the last logged step says of the run's time.
    const std::optional<TimeSpent>& time_spent() const { return time_spent_; }

    /// Whether nothing was ever logged.
    bool empty() const { return file_.size() == 0; }

    void write_step(const StepMetrics& metrics);
    void write_validation(std::int64_t step, double val_loss);
    /// The run goes on from `step`: what was logged of later steps no longer counts.
    void write_resume(std::int64_t step);

    void sync() { file_.sync(); }

private:
    void read_back();
    /// Takes a line over; false if it is not one of ours.
    bool take(std::string_view line);
    void undo_after(std::int64_t step);

    File file_;
    std::set<std::int64_t> validations_;
    std::optional<TimeSpent> time_spent_;
};

}  // namespace gptrain
