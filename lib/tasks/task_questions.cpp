#include "tasks/task_questions.h"

#include <utility>

namespace gptrain {

TaskQuestions ask(std::span<const Task> tasks, const TaskUse& use, TaskEncoder& encoder) {
    TaskQuestions all;
    for (const Task& task : tasks) {
        const TaskSpec& spec = task.spec();
        AskedTask asked = {&spec, use.few_shot.value_or(spec.few_shot), task.items(use), {}};
        const bool writes = spec.kind == TaskKind::exact_match;
        const auto next = [&] { return writes ? all.to_write.size() : all.to_score.size(); };
        for (const TaskItem& item : asked.items) {
            asked.first.push_back(next());
            if (writes)
                all.to_write.push_back({encoder.prompt(item, spec), &spec,
                                        use.chat ? use.chat->end_of_turn : std::string()});
            for (ScoreRequest& request : encoder.requests(item, spec.kind))
                all.to_score.push_back(std::move(request));
        }
        asked.first.push_back(next());
        all.tasks.push_back(std::move(asked));
    }
    return all;
}

std::vector<TaskResult> judge(const TaskQuestions& questions, std::span<const TokenScores> scores,
                              std::span<const std::string> texts) {
    std::vector<TaskResult> results;
    for (const AskedTask& task : questions.tasks) {
        TaskResult result = {task.spec->name, task.few_shot, {}, {}};
        for (std::size_t i = 0; i < task.items.size(); ++i) {
            const TaskItem& item = task.items[i];
            const std::size_t first = task.first[i];
            result.documents.push_back(
                task.spec->kind == TaskKind::exact_match
                    ? judge_text(*task.spec, item, texts[first])
                    : judge_scores(*task.spec, item,
                                   scores.subspan(first, task.first[i + 1] - first)));
        }
        result.metrics = summarize(metric_names(*task.spec, task.items.front()), result.documents);
        results.push_back(std::move(result));
    }
    return results;
}

}  // namespace gptrain
