#include "train/run_tasks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "engine/text_scores.h"
#include "tasks/load_task.h"

namespace gptrain {
namespace {

constexpr std::string_view tasks_key = "eval_tasks.tasks";

std::vector<Task> load(const EvalTasksSpec& spec) {
    std::vector<std::string> names;
    for (const TaskName& name : spec.tasks)
        names.push_back(name.text);
    return load_tasks(names, tasks_key);
}

}  // namespace

RunTasks::RunTasks(const EvalTasksSpec& spec, RunTexts texts)
    : texts_(std::move(texts)), tasks_(load(spec)) {
    TaskEncoder encoder(texts_.tokenizer, texts_.max_length, tasks_key);
    const TaskUse use = {.folder = spec.data.value_or(""),
                         .limit = spec.limit,
                         .few_shot = spec.few_shot,
                         .folder_key = "eval_tasks.data",
                         .few_shot_key = "eval_tasks.few_shot"};
    questions_ = ask(tasks_, use, encoder);
    cut_ = encoder.cut();
}

std::int64_t RunTasks::texts() const {
    return std::ssize(questions_.to_score) + std::ssize(questions_.to_write);
}

std::optional<std::vector<TaskMetric>> RunTasks::measure(
    const ForwardPasses& passes, const MpiSession& ranks, ActionListener& listener,
    const std::function<bool(std::int64_t)>& go_on) const {
    bool goes_on = true;
    const auto scores = score_requests(passes, ranks, questions_.to_score, listener,
                                       [&](std::int64_t done) { return goes_on = go_on(done); });
    if (!goes_on) return std::nullopt;
    const WritingRules rules = {
        .tokenizer = texts_.tokenizer,
        .ends = texts_.ends,
        .vocab = std::min(passes.plan().model.vocab, texts_.tokenizer.vocab_size()),
        .most_tokens = texts_.max_length};
    const auto written = write_texts(
        passes, ranks, questions_.to_write, rules, listener,
        [&](std::int64_t done) { return go_on(std::ssize(questions_.to_score) + done); });
    if (!written) return std::nullopt;
    if (ranks.rank() != 0) return std::vector<TaskMetric>();
    return metrics(scores, *written);
}

std::vector<TaskMetric> RunTasks::metrics(std::span<const TokenScores> scores,
                                          const WrittenTexts& written) const {
    const bool known = are_finite(scores) && written.is_finite;
    std::vector<std::string> texts = written.texts;
    texts.resize(questions_.to_write.size());
    std::vector<TaskMetric> all;
    for (const TaskResult& result : judge(questions_, scores, texts)) {
        for (const Metric& metric : result.metrics) {
            TaskMetric& each = all.emplace_back(
                TaskMetric{result.name, metric.name, std::numeric_limits<double>::quiet_NaN()});
            if (!known) continue;
            each.value = metric.value;
            if (std::isfinite(metric.standard_error)) each.standard_error = metric.standard_error;
        }
    }
    return all;
}

}  // namespace gptrain
