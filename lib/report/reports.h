// Where a run tells of itself: metrics.jsonl, TensorBoard, and lines for people. Rank 0 alone has
// one.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "report/console.h"
#include "report/metrics_log.h"
#include "report/run_directory.h"
#include "report/tensorboard.h"
#include "spec/run_spec.h"

namespace gptrain {

class Reports {
public:
    /// Opens metrics.jsonl (see MetricsLog).
    explicit Reports(const RunPaths& paths) : paths_(paths), log_(paths.metrics()) {}

    const MetricsLog& log() const { return log_; }

    /// Begins the lines of a run that goes on after step `first`. `spec`: the effective one.
    void begin(std::int64_t first, const RunSpec& spec);
    /// The run has gone back to `step`.
    void went_back(std::int64_t step);

    /// After every step.
    void done(std::int64_t step) { console_->tick(step); }
    /// After every logged step.
    void step(const StepMetrics& metrics);
    /// During an evaluation.
    void evaluating(std::int64_t done, std::int64_t total) { console_->evaluating(done, total); }
    void validation(std::int64_t step, double val_loss);
    /// Makes the lines of metrics.jsonl durable.
    void sync() { log_.sync(); }

private:
    RunPaths paths_;
    MetricsLog log_;
    Json settings_;  ///< for TensorBoard
    std::optional<TensorBoardWriter> tensorboard_;
    std::optional<Console> console_;
};

}  // namespace gptrain
