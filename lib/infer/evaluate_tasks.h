// A trained model's results on tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "infer/inference.h"
#include "tasks/task_questions.h"

namespace gptrain {

/// Progress callback: "scored" or "written", texts done, total.
using TaskProgress = std::function<void(std::string_view, std::int64_t, std::int64_t)>;

/// The results of each task, on rank 0, and nothing on the others. All ranks call it with the same
/// tasks and see the same files. Any mesh will do; data ranks share the documents. Warns if texts
/// were cut on the left to the model's positions. Errors: those of Task::items, TaskEncoder, score
/// and TextGenerator; (usage) the model has no tokenizer.
std::vector<TaskResult> evaluate_tasks(const InferenceRun& run, std::span<const Task> tasks,
                                       const TaskUse& use, const TaskProgress& progress);

}  // namespace gptrain
