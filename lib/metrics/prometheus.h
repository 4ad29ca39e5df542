// The newest metrics of a run for Prometheus: a file in its text format, which the textfile
// collector of node_exporter reads (prometheus.io/docs/instrumenting/exposition_formats).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/metrics_line.h"

namespace gptrain {

/// The file's contents: a gauge gptrain_NAME{run="..."} for each metric that is known, with its
/// HELP and TYPE lines; `axis` labels those of communication, `part` those of goodput, `layer` or
/// `source` the numbers of a measure, and `task` and `metric` those of tasks.
std::string prometheus_text(std::string_view run, const StepMetrics& metrics,
                            const std::optional<Validation>& validation,
                            const TaskEvaluation& tasks = {});

/// Replaces a file at every logged step and evaluation.
class PrometheusFile {
public:
    PrometheusFile(std::filesystem::path file, std::string run)
        : file_(std::move(file)), run_(std::move(run)) {}

    /// Replaces the file at once, so that no reader sees a part of it, by the newest of each kind;
    /// there is none before the first logged step. A failure is a warning, the first one only:
    /// monitoring never ends a run.
    void write(const StepMetrics& metrics);
    void write(const Validation& validation);
    void write(const TaskEvaluation& evaluation);

private:
    void write();

    std::filesystem::path file_;
    std::string run_;
    std::optional<StepMetrics> metrics_;
    std::optional<Validation> validation_;
    TaskEvaluation tasks_;
    bool warned_ = false;
};

}  // namespace gptrain
