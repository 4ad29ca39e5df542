// The run specs of several runs, compared key by key.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/reported_run.h"

namespace gptrain {

struct SpecRow {
    std::string key;                  ///< "training.steps"
    std::vector<std::string> values;  ///< of each run, as JSON; empty if it has no such key
};

/// The keys whose values are not the same in all runs that have a spec, in the order of the spec.
/// Without `name` and `output_dir`, which differ in any case.
std::vector<SpecRow> spec_differences(std::span<const ReportedRun> runs);

}  // namespace gptrain
