// The report as one HTML page, which needs nothing else: charts as SVG, style sheet and script
// inside. Every text of a run is escaped, and a content security policy allows no other script.
#pragma once

#include <span>
#include <string>

#include "report/reported_run.h"

namespace gptrain {

struct PageContents {
    std::span<const ReportedRun> runs;
    std::span<const Picture> pictures;
    std::string made_by;  ///< program, version, date
};

std::string to_html(const PageContents& contents);

}  // namespace gptrain
