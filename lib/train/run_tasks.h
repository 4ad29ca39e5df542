// The tasks that measure a run's model between its steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/text_writing.h"
#include "metrics/task_results.h"
#include "spec/run_spec.h"
#include "tasks/task_questions.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// How a run's model reads and writes texts.
struct RunTexts {
    Tokenizer tokenizer;
    EndTokens ends;
    std::int64_t max_length = 0;  ///< tokens that the model reads at a time
};

class RunTasks {
public:
    /// Reads the files of tasks and of their data. Errors: those of load_tasks, Task::items and
    /// TaskEncoder.
    RunTasks(const EvalTasksSpec& spec, RunTexts texts);

    /// How many texts were cut on the left.
    std::int64_t cut() const { return cut_; }
    /// How many texts the model scores and writes.
    std::int64_t texts() const;

    /// The metrics of all tasks, on rank 0, measured by all ranks together; not numbers where the
    /// model is not finite. After each batch all ranks call `go_on` with the texts done; if it
    /// returns false, the same on all, there are none.
    std::optional<std::vector<TaskMetric>> measure(
        const ForwardPasses& passes, const MpiSession& ranks, ActionListener& listener,
        const std::function<bool(std::int64_t)>& go_on) const;

private:
    std::vector<TaskMetric> metrics(std::span<const TokenScores> scores,
                                    const WrittenTexts& written) const;

    RunTexts texts_;
    std::vector<Task> tasks_;
    TaskQuestions questions_;
    std::int64_t cut_ = 0;
};

}  // namespace gptrain
