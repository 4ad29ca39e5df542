#include "metrics/task_results.h"

#include <algorithm>

namespace gptrain {
namespace {

constexpr std::string_view error_suffix = "_stderr";

std::string error_key(std::string_view metric) {
    return std::string(metric) + std::string(error_suffix);
}

/// True if the key of a task is not a metric.
bool is_setting(std::string_view key) {
    return key == "documents" || key == "few_shot" || key.ends_with(error_suffix);
}

bool is_number(const Json& object, std::string_view key) {
    return object.contains(key) && !object.at(std::string(key)).is_null();
}

}  // namespace

const TaskMetric* find_metric(std::span<const TaskMetric> metrics, std::string_view task,
                              std::string_view metric) {
    const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const TaskMetric& each) {
        return each.task == task && each.metric == metric;
    });
    return found == metrics.end() ? nullptr : &*found;
}

std::vector<TaskMetric> task_metrics(const Json& tasks, const std::string& source) {
    std::vector<TaskMetric> results;
    const JsonReader reader(tasks, source);
    for (const auto& [task, members] : tasks.items()) {
        const Json& metrics = reader.object(task);
        const JsonReader values(metrics, source);
        for (const auto& [metric, value] : metrics.items()) {
            if (is_setting(metric) || value.is_null()) continue;
            TaskMetric result = {task, metric, values.number(metric)};
            const std::string error = error_key(metric);
            if (is_number(metrics, error)) result.standard_error = values.number(error);
            results.push_back(std::move(result));
        }
    }
    return results;
}

Json to_json(std::span<const TaskMetric> metrics) {
    Json tasks = Json::object();
    for (const TaskMetric& each : metrics) {
        Json& task = tasks[each.task];
        task[each.metric] = each.value;
        task[error_key(each.metric)] =
            each.standard_error ? Json(*each.standard_error) : Json(nullptr);
    }
    return tasks;
}

}  // namespace gptrain
