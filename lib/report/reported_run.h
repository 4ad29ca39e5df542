// The runs that reports show.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
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

/// The labels of a measure's numbers in these lines of all runs, by first sight.
template <class Line>
std::vector<std::string> labels_in(std::span<const ReportedRun> runs,
                                   std::vector<Line> RunLog::*lines, const MeasureRow& row) {
    std::vector<std::string> labels;
    for (const ReportedRun& run : runs) {
        for (const Line& line : run.log.*lines) {
            for (const ReportedMeasure& measure : line.measures) {
                if (measure.row != &row) continue;
                for (const MeasuredNumber& number : measure.numbers) {
                    if (std::ranges::find(labels, number.label) == labels.end())
                        labels.push_back(number.label);
                }
            }
        }
    }
    return labels;
}

/// A picture to show, such as a timeline.
struct Picture {
    std::string title;
    std::string svg;  ///< a whole SVG file; shown as an image, so its scripts do not run
};

}  // namespace gptrain
