// Everything that a run reports to: metrics.jsonl, TensorBoard, Prometheus and the console. Only
// rank 0 has one. A disk that refuses a report costs a warning, not the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "metrics/console.h"
#include "metrics/metrics_log.h"
#include "metrics/prometheus.h"
#include "metrics/run_directory.h"
#include "metrics/tensorboard.h"
#include "spec/run_spec.h"

namespace gptrain {

class Reports {
public:
    /// Opens metrics.jsonl. `may_write`: that of MetricsLog.
    Reports(const RunPaths& paths, std::function<void()> may_write)
        : paths_(paths), log_(paths.metrics(), std::move(may_write)) {}

    const MetricsLog& log() const { return log_; }

    /// Starts the reports of a run that continues after step `first` and `samples` samples. `spec`:
    /// the effective one.
    void begin(std::int64_t first, std::int64_t samples, const RunSpec& spec,
               const BatchSchedule& batch);
    void event(const RunEvent& event);

    /// Call it after the first step.
    void start(const StartReport& start);
    /// Call it after every step, with the samples consumed so far.
    void done(std::int64_t step, std::int64_t samples) { console().update(step, samples); }
    /// Call it after every logged step.
    void step(const StepMetrics& metrics);
    /// Call it during an evaluation, on the validation data or on tasks.
    void evaluating(std::int64_t done, std::int64_t total) { console().evaluating(done, total); }
    void validation(const Validation& validation);
    void tasks(const TaskEvaluation& evaluation);
    /// The start has ended after `step`, with its last save.
    void ended(std::int64_t step, const TimeSpent& spent);
    /// Makes the lines of metrics.jsonl durable.
    void sync() { log_.sync(); }
    /// The last call. Error (io) if something could not be written.
    void finish();

private:
    Console& console() {
        GPTRAIN_CHECK(console_, "reports have not begun");
        return *console_;
    }
    /// Opens TensorBoard's file of a run that continues after `step`.
    void open_tensorboard(std::int64_t step);

    RunPaths paths_;
    MetricsLog log_;
    Json settings_;  ///< for TensorBoard's HPARAMS tab
    std::optional<TensorBoardWriter> tensorboard_;
    std::optional<PrometheusFile> prometheus_;
    std::optional<Console> console_;
};

}  // namespace gptrain
