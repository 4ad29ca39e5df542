// The sections of a report behind its charts. Each is HTML, empty if there is nothing to show.
#pragma once

#include <span>
#include <string>

#include "report/reported_run.h"

namespace gptrain {

/// A row for each metric of a task that any run has.
std::string task_section(std::span<const ReportedRun> runs);
/// For each run, a bar that splits its running time by use; then a table of all runs.
std::string time_section(std::span<const ReportedRun> runs);
/// A table of the first 200 events.
std::string event_section(std::span<const ReportedRun> runs);
std::string plan_section(std::span<const ReportedRun> runs);
std::string picture_section(std::span<const Picture> pictures);
/// The differences between several specs, then each in full.
std::string spec_section(std::span<const ReportedRun> runs);

}  // namespace gptrain
