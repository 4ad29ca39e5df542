// The plan of a run next to what was measured.
#pragma once

#include <string>
#include <vector>

#include "report/reported_run.h"

namespace gptrain {

struct PlanRow {
    std::string name;
    std::string planned;
    std::string measured;
    std::string ratio;  ///< measured / planned; "rough" of times whose profile was not calibrated
};

/// Memory, bytes on each axis and, with an estimate, times. Measured times are medians over the
/// logged steps. Empty without a plan or without a logged step.
std::vector<PlanRow> plan_rows(const ReportedRun& run);

}  // namespace gptrain
