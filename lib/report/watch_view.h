// The view of a running run on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_log.h"
#include "spec/run_spec.h"

namespace gptrain {

struct WatchedRun {
    const std::string& label;
    const RunLog& log;
    const RunSpec* spec;  ///< null if unknown
};

struct TerminalSize {
    std::int64_t columns = 80;
    std::int64_t rows = 24;
    bool unicode = true;  ///< shows Braille patterns
};

/// The lines of the view, which fit into the terminal: progress, the newest values, charts of loss,
/// gradient norm and throughput as far as there is room, and the newest events.
std::vector<std::string> watch_view(const WatchedRun& run, const TerminalSize& size);

}  // namespace gptrain
