// Which charts a report has, and what they share.
#pragma once

#include <span>
#include <vector>

#include "report/chart.h"
#include "report/reported_run.h"

namespace gptrain {

/// The steps and events of all runs.
ChartFrame frame_of(std::span<const ReportedRun> runs);

/// All charts of the page. One run has a colour for each kind of curve; several runs have a colour
/// each.
std::vector<Chart> charts_of(std::span<const ReportedRun> runs);

}  // namespace gptrain
