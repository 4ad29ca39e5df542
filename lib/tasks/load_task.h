// Reads task files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task_items.h"
#include "tasks/task_spec.h"

namespace gptrain {

/// Parses a task. Every mistake is an Error (usage): `source:line:column: key: ...`.
TaskSpec parse_task(std::string_view yaml, const std::string& name, const std::string& source);

/// The names of the tasks in configs/tasks, which are part of the program.
std::vector<std::string_view> task_names();

/// Reads those of `names`, or files. `option`: where the names were given. Errors (usage): there is
/// neither; two tasks have one name, by which results are told apart.
std::vector<Task> load_tasks(std::span<const std::string> names, std::string_view option);

}  // namespace gptrain
