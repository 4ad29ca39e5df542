// The results of a model on tasks, as gptrain eval --task --json and the lines of metrics.jsonl
// have them: {"TASK": {"METRIC": 0.75, "METRIC_stderr": 0.16, ...}, ...}.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace gptrain {

struct TaskMetric {
    std::string task;
    std::string metric;
    double value = 0;
    std::optional<double> standard_error = {};
};

/// A task's metric, if it is among these, or null.
const TaskMetric* find_metric(std::span<const TaskMetric> metrics, std::string_view task,
                              std::string_view metric);

/// Reads the metrics that are known (not null). A task may also have "documents" and "few_shot".
/// Anything else is an Error (bad_input) that names `source`.
std::vector<TaskMetric> task_metrics(const Json& tasks, const std::string& source);

/// The metrics as JSON; those of one task must be adjacent. Unknown standard errors are null.
Json to_json(std::span<const TaskMetric> metrics);

}  // namespace gptrain
