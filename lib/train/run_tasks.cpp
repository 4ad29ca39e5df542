#include "train/run_tasks.h"

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "tasks/load_task.h"

namespace gptrain {
namespace {

constexpr std::string_view tasks_key = "eval_tasks.tasks";

std::vector<Task> load(const EvalTasksSpec& spec) {
    std::vector<std::string> names;
    for (const TaskName& name : spec.tasks)
        names.push_back(name.text);
    std::vector<Task> tasks = load_tasks(names, tasks_key);
    for (const Task& task : tasks) {
        if (task.spec().kind != TaskKind::exact_match) continue;
        fail(ExitCode::usage, tasks_key, ": ", task.spec().name, " is of kind ",
             name_of(task.spec().kind),
             ", which needs texts that a run does not write; remove it and measure the "
             "checkpoints with gptrain eval --task");
    }
    return tasks;
}

}  // namespace

RunTasks::RunTasks(const EvalTasksSpec& spec, const Tokenizer& tokenizer, std::int64_t max_length)
    : tasks_(load(spec)) {
    TaskEncoder encoder(tokenizer, max_length, tasks_key);
    const TaskUse use = {.folder = spec.data.value_or(""),
                         .limit = spec.limit,
                         .few_shot = spec.few_shot,
                         .folder_key = "eval_tasks.data",
                         .few_shot_key = "eval_tasks.few_shot"};
    questions_ = ask(tasks_, use, encoder);
    cut_ = encoder.cut();
}

std::vector<TaskMetric> RunTasks::metrics(std::span<const TokenScores> scores) const {
    const bool known = are_finite(scores);
    std::vector<TaskMetric> all;
    for (const TaskResult& result : judge(questions_, scores, {})) {
        for (const Metric& metric : result.metrics) {
            TaskMetric& each = all.emplace_back(TaskMetric{result.name, metric.name, metric.value});
            if (!known) each.value = std::numeric_limits<double>::quiet_NaN();
            if (std::isfinite(metric.standard_error)) each.standard_error = metric.standard_error;
        }
    }
    return all;
}

}  // namespace gptrain
