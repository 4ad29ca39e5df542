// Runs as tables for other programs.
#pragma once

#include <span>
#include <string>

#include "report/reported_run.h"

namespace gptrain {

/// One row for each step of a run that was logged or evaluated, with the columns run, step, the
/// metrics of metrics.jsonl in their order, val_loss, comm.AXIS.bytes and .seconds for the axes
/// that any run has, and goodput.PART. Unknown values are empty. Quoted as in RFC 4180.
std::string to_csv(std::span<const ReportedRun> runs);

/// One object with `runs`, of which each has `run`, `name`, `spec` (null if it is missing),
/// `metrics` (an array for each column of the table, null where unknown), `events`, and `tasks`
/// (the value of each metric of each task).
std::string to_json(std::span<const ReportedRun> runs);

}  // namespace gptrain
