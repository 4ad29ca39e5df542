// A trained model's results on tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "infer/inference.h"
#include "tasks/task_questions.h"

namespace gptrain {

/// Progress callback: "scored" or "written", texts done, total.
using TaskProgress = std::function<void(std::string_view, std::int64_t, std::int64_t)>;

/// How questions become conversations.
struct TaskChatOptions {
    /// A NamedTemplate's name or a file; empty: the model's own template.
    std::string chat_template;
    Json template_kwargs = Json::object();  ///< other variables for it
};

/// The results of each task, on rank 0, and nothing on the others. With `chat`, questions are those
/// of a user whom the model answers; their Errors are those of ConversationCodec. All ranks call it
/// with the same tasks and see the same files. Any mesh will do; data ranks share the documents.
/// Warns if texts were cut on the left to the model's positions. Errors: those of Task::items,
/// TaskEncoder, score and TextGenerator; (usage) the model has no tokenizer.
std::vector<TaskResult> evaluate_tasks(const InferenceRun& run, std::span<const Task> tasks,
                                       TaskUse use, const std::optional<TaskChatOptions>& chat,
                                       const TaskProgress& progress);

}  // namespace gptrain
