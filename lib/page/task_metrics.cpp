#include "page/task_metrics.h"

#include "base/error.h"
#include "base/json.h"

namespace gptrain {
namespace {

constexpr std::string_view error_suffix = "_stderr";

/// True if the key of a task is not a metric.
bool is_setting(std::string_view key) {
    return key == "documents" || key == "few_shot" || key.ends_with(error_suffix);
}

}  // namespace

std::vector<TaskMetric> task_metrics(std::string_view json, const std::string& source) {
    std::vector<TaskMetric> results;
    const Json tasks = parse_json(json, source);
    const JsonReader reader(tasks, source);
    for (const auto& [task, members] : tasks.items()) {
        const Json& metrics = reader.object(task);
        const JsonReader values(metrics, source);
        for (const auto& [metric, value] : metrics.items()) {
            if (is_setting(metric)) continue;
            TaskMetric result = {task, metric, values.number(metric)};
            const std::string error = metric + std::string(error_suffix);
            if (values.has(error)) result.standard_error = values.number(error);
            results.push_back(std::move(result));
        }
    }
    return results;
}

}  // namespace gptrain
