// The output of `gptrain eval --task`: a progress bar, a table, and files.
#pragma once

#include <span>
#include <string>

#include "infer/evaluate_tasks.h"

namespace gptrain {

/// Files that the user asked for; empty: none.
struct TaskReportFiles {
    std::string json;
    std::string details;
};

/// Error (usage) if the folder of a file is missing.
void check_task_files(const TaskReportFiles& files);

/// A bar on the terminal with the time that an action still takes.
TaskProgress task_progress_bar();

/// Prints a table and, as the last line, the results as JSON; writes the files.
void report_tasks(std::span<const TaskResult> results, const TaskReportFiles& files);

}  // namespace gptrain
