// A run's results in a few numbers with units.
#pragma once

#include <string>
#include <vector>

#include "report/reported_run.h"
#include "report/series.h"

namespace gptrain {

struct Figure {
    std::string name;
    std::string value;
    std::string detail = {};
};

/// The known figures of the run, most important first. Runs of one version have figures of the same
/// names in the same order, but may lack some.
std::vector<Figure> figures_of(const ReportedRun& run);

/// The median of the values that are known; nothing if none is.
std::optional<double> median(const RunLog& log, const Metric& metric);

/// "4.6598": a loss.
std::string loss_text(double loss);
/// "12,345 tok/s".
std::string speed_text(double tokens_per_s);
/// "0.0123 s", "3 min 05 s".
std::string seconds_text(double seconds);

/// "a resume", "a rollback from step 45", ... without the step.
std::string describe(const RunEvent& event);

/// True for events that a healthy run does not have.
bool is_fault(const RunEvent& event);

}  // namespace gptrain
