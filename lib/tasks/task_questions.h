// The questions of several tasks to a model, and their results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tasks/task_items.h"
#include "tasks/task_metrics.h"
#include "tasks/task_requests.h"

namespace gptrain {

/// A task's questions, and their positions among those of all tasks.
struct AskedTask {
    const TaskSpec* spec;
    std::int64_t few_shot;
    std::vector<TaskItem> items;
    std::vector<std::size_t> first;  ///< score or write request of each item, then the end
};

/// A text to write after a prompt (exact_match).
struct WriteRequest {
    std::vector<std::int32_t> prompt;
    const TaskSpec* spec;
    std::string end_of_turn = {};  ///< TaskChat::end_of_turn
};

struct TaskQuestions {
    std::vector<AskedTask> tasks;
    std::vector<ScoreRequest> to_score;
    std::vector<WriteRequest> to_write;
};

/// The questions of all documents. The tasks must outlive them. Errors: those of Task::items and
/// TaskEncoder.
TaskQuestions ask(std::span<const Task> tasks, const TaskUse& use, TaskEncoder& encoder);

struct TaskResult {
    std::string name;  ///< of the task
    std::int64_t few_shot = 0;
    std::vector<Metric> metrics;
    std::vector<ItemResult> documents;
};

/// The results of each task. `scores`: of the score requests, in order; `texts`: what was written,
/// in the order of the write requests.
std::vector<TaskResult> judge(const TaskQuestions& questions, std::span<const TokenScores> scores,
                              std::span<const std::string> texts);

}  // namespace gptrain
