// metrics.jsonl: one JSON object per line, append-only.
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

/// The metrics of a logged step. Unknown values are empty. They and non-finite values are written
/// as null.
struct StepMetrics {
    std::int64_t step = 0;                 ///< counted from 1
    std::optional<double> loss = {};       ///< of this step only
    std::optional<double> mean_loss = {};  ///< over the steps since the last interval ended
    std::optional<double> grad_norm = {};  ///< before clipping
    std::optional<double> lr = {};
    std::optional<double> loss_scale = {};
    std::optional<double> tokens_per_s = {};
    std::optional<double> step_time_s = {};
    std::optional<double> tflops_per_device = {};
    std::optional<double> mfu = {};  ///< model FLOP/s divided by the device's peak, 0 to 1
    std::optional<std::int64_t> consumed_samples = {};
    std::optional<std::int64_t> consumed_tokens = {};
    std::optional<std::int64_t> memory_bytes = {};
    std::optional<std::int64_t> skipped_steps = {};
    std::vector<CommMetric> comm = {};
    TimeSpent goodput = {};
};

/// Calls visit(name, optional value) for every scalar metric except the step, in the order of the
/// file.
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

/// The log of one run. It has four kinds of lines:
///   {"step": 1, "loss": 9.01, ..., "comm": {"dp": {"bytes": 8, "seconds": 1}}, "goodput": {...}}
///   {"step": 100, "val_loss": 5.2}
///   {"event": "resume", "step": 100}
///   {"event": "data", "step": 100, "consumed_samples": 6400}
/// Numbers are written in the shortest form that reads back as the same value. If a step has two
/// lines of one kind, the later one counts. Each line is written at once; `sync` makes the lines
/// durable.
class MetricsLog {
public:
    /// Opens or creates `file`. Cuts off a torn last line, left by a crash. Keeps and ignores other
    /// lines that are not of these kinds; one warning names the first. Ignores unknown keys.
    explicit MetricsLog(const std::filesystem::path& file);
    /// Syncs, so that the log survives a run that ends with an error.
    ~MetricsLog();
    MetricsLog(const MetricsLog&) = delete;
    MetricsLog& operator=(const MetricsLog&) = delete;

    /// True if the log has an evaluation of the weights after `step` steps that a later resume from
    /// an earlier step did not undo.
    bool has_validation(std::int64_t step) const { return validations_.contains(step); }

    /// The time account of the last logged step.
    const std::optional<TimeSpent>& time_spent() const { return time_spent_; }

    /// True if nothing was ever logged.
    bool empty() const { return file_.size() == 0; }

    void write_step(const StepMetrics& metrics);
    void write_validation(std::int64_t step, double val_loss);
    /// Marks that the run resumes from `step`: logged lines of later steps no longer count.
    void write_resume(std::int64_t step);
    /// Marks that from the next sample on the run reads other data.
    void write_data_change(std::int64_t step, std::int64_t consumed_samples);

    void sync() { file_.sync(); }

private:
    void read_back();
    /// Reads a line back. Returns false if it is not of the four kinds.
    bool read_line(std::string_view line);
    void undo_after(std::int64_t step);

    File file_;
    std::set<std::int64_t> validations_;
    std::optional<TimeSpent> time_spent_;
};

}  // namespace gptrain
