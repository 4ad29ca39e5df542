// What a model achieved on tasks, as gptrain eval --task --json writes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

struct TaskMetric {
    std::string task;
    std::string metric;
    double value = 0;
    std::optional<double> standard_error = {};
};

/// Reads {"TASK": {"documents": 8, "few_shot": 2, "METRIC": 0.75, "METRIC_stderr": 0.16, ...},
/// ...}. Anything else is an Error (bad_input) that names `source`.
std::vector<TaskMetric> task_metrics(std::string_view json, const std::string& source);

}  // namespace gptrain
