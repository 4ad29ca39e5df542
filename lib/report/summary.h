// A run in a few lines of plain text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/reported_run.h"

namespace gptrain {

/// The state that the output directory shows besides the log.
struct RunFolderState {
    std::vector<std::int64_t> checkpoints;  ///< their steps, newest first
    double quiet_seconds = 0;               ///< since the last line of the log
};

/// The directory and the run's name, its state, its figures (figures_of), its checkpoints and its
/// newest events, a line each.
std::string to_summary(const ReportedRun& run, const RunFolderState& folder);

}  // namespace gptrain
