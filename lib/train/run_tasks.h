// The tasks that measure a run's model between its steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "report/task_metrics.h"
#include "spec/run_spec.h"
#include "tasks/task_questions.h"
#include "text/tokenizer.h"

namespace gptrain {

class RunTasks {
public:
    /// Reads the files of tasks and of their data. `max_length`: the tokens that the model reads at
    /// a time. Errors: those of load_tasks, Task::items and TaskEncoder; (usage) a task needs texts
    /// that the model writes.
    RunTasks(const EvalTasksSpec& spec, const Tokenizer& tokenizer, std::int64_t max_length);

    /// What to score.
    std::span<const ScoreRequest> requests() const { return questions_.to_score; }
    /// How many of them were cut on the left.
    std::int64_t cut() const { return cut_; }

    /// The metrics of all tasks, from the scores of all requests; not numbers if a score is none.
    std::vector<TaskMetric> metrics(std::span<const TokenScores> scores) const;

private:
    std::vector<Task> tasks_;
    TaskQuestions questions_;
    std::int64_t cut_ = 0;
};

}  // namespace gptrain
