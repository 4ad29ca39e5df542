// metrics.jsonl: one JSON object per line, append-only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "metrics/metrics_line.h"
#include "metrics/report_file.h"

namespace gptrain {

/// The log of one run, of the lines in metrics_line.h. If a step has two lines of one kind, the
/// later one counts. Each line is written at once, or later if the disk refuses it (ReportFile).
class MetricsLog {
public:
    /// Opens or creates `file`. Truncates a last line torn by a crash. Keeps but ignores lines of
    /// other kinds; one warning names the first of them. `may_write` is called before anything is
    /// written; an Error prevents that.
    explicit MetricsLog(const std::filesystem::path& file, std::function<void()> may_write = {});
    /// Syncs, so that the log survives a run that ends with an error.
    ~MetricsLog();

    /// True if the log has an evaluation of the weights after `step` steps that a later resume from
    /// an earlier step did not undo.
    bool has_validation(std::int64_t step) const { return validations_.contains(step); }
    /// The same for an evaluation on tasks.
    bool has_tasks(std::int64_t step) const { return task_evaluations_.contains(step); }

    /// The time account of the last logged step, or of the last start's end if that is later.
    const std::optional<TimeSpent>& time_spent() const { return time_spent_; }

    /// True if nothing was ever logged.
    bool empty() const { return file_.file().size() == 0; }

    void write(const MetricsLine& line);

    /// Makes the lines durable; a failure is a warning.
    void sync();
    /// The same after the last line. Error (io) if lines are lost.
    void finish();

private:
    void require_may_write() const {
        if (may_write_) may_write_();
    }
    void read_back();
    /// Takes over what a later start must know of a line.
    void note(const StepMetrics& metrics);
    void note(const Validation& validation);
    void note(const TaskEvaluation& evaluation);
    void note(const RunEvent& event);
    void note(const StartReport& /*start*/) {}
    void note(const EndOfStart& end);

    std::function<void()> may_write_;
    ReportFile file_;
    std::set<std::int64_t> validations_;
    std::set<std::int64_t> task_evaluations_;
    std::optional<TimeSpent> time_spent_;
};

/// The last step that the latest start of a run has logged in `file`; nothing if it has logged
/// none. Reads the end of the file only.
std::optional<std::int64_t> last_logged_step(const std::filesystem::path& file);

}  // namespace gptrain
