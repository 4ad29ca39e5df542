// The log of a run: the lines of metrics.jsonl, joined over its starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metrics_line.h"

namespace gptrain {

/// A resume, or a line of a step that is not after the last one, undoes what was logged of later
/// steps: they were done again, or will be.
struct RunLog {
    std::vector<StepMetrics> steps;       ///< those that count, ascending
    std::vector<Validation> validations;  ///< those that count, ascending
    std::vector<TaskEvaluation> tasks;    ///< those that count, ascending
    std::vector<RunEvent> events;         ///< all, in the order of the file
    /// Stretches of steps that were undone, each ascending, in the order of the file.
    std::vector<std::vector<StepMetrics>> undone;
    TimeSpent time_spent;            ///< the last account in the file; all 0 if unknown
    std::int64_t unknown_lines = 0;  ///< not written by gptrain, or torn

    /// Adds the next line, without its end.
    void add(std::string_view line);

    bool empty() const {
        return steps.empty() && validations.empty() && tasks.empty() && events.empty();
    }

private:
    void add(StepMetrics metrics);
    void add(const Validation& validation);
    void add(TaskEvaluation evaluation);
    void add(RunEvent event);
    void add(const StartReport& /*start*/) {}
    void add(const EndOfStart& end) { time_spent = end.goodput; }
    /// Undoes the steps from `first` on.
    void undo_from(double first);
};

/// Reads the metrics.jsonl of a run, which may still be written to.
class RunLogReader {
public:
    explicit RunLogReader(std::filesystem::path file) : file_(std::move(file)) {}

    /// The log up to its last complete line at present. Reads only what is new, or everything if
    /// the file became shorter. A file that cannot be read is an Error (io).
    const RunLog& update();

private:
    void add(std::string_view bytes);

    std::filesystem::path file_;
    std::int64_t read_ = 0;  ///< bytes
    std::string line_;       ///< begun, not ended yet
    RunLog log_;
};

}  // namespace gptrain
