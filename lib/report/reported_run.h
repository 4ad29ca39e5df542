// The runs that reports show.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/task_results.h"
#include "report/planned_run.h"
#include "report/run_log.h"
#include "spec/run_spec.h"

namespace gptrain {

/// A run.
struct ReportedRun {
    std::string label;  ///< the output directory, as the user gave it
    RunLog log;
    std::optional<RunSpec> spec;         ///< of spec.yaml, if it is there
    std::optional<PlannedRun> planned;   ///< if the spec's plan is known
    std::string no_plan = {};            ///< otherwise why not
    std::vector<TaskMetric> tasks = {};  ///< the newest results
};

/// A picture to show, such as a timeline.
struct Picture {
    std::string title;
    std::string svg;  ///< a whole SVG file; shown as an image, so its scripts do not run
};

}  // namespace gptrain
