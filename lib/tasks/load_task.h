// Reads task files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tasks/task_spec.h"

namespace gptrain {

/// Parses a task. Every mistake is an Error (usage): `source:line:column: key: ...`.
TaskSpec parse_task(std::string_view yaml, const std::string& name, const std::string& source);

/// The names of the tasks in configs/tasks, which are part of the program.
std::vector<std::string_view> task_names();

/// Reads one of those, or a file.
TaskSpec load_task(const std::string& name_or_file);

}  // namespace gptrain
