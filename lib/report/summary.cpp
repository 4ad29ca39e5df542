#include "report/summary.h"

#include <algorithm>

#include "base/text.h"
#include "report/figures.h"

namespace gptrain {
namespace {

constexpr std::int64_t most_events = 8;
constexpr std::int64_t most_checkpoints = 5;

/// "  throughput        3,219 tok/s (0.64 s a step, median)"
void add_line(std::string& out, const std::string& name, const std::string& value,
              const std::string& detail = "") {
    constexpr std::size_t width = 18;
    std::string padded = name;
    padded.resize(std::max(width, name.size() + 1), ' ');
    append(out, text("  ", padded, value, detail.empty() ? "" : " (" + detail + ")", "\n"));
}

std::string state_of(const ReportedRun& run, const RunFolderState& folder) {
    const std::int64_t done = run.log.steps.empty() ? 0 : run.log.steps.back().step;
    if (run.spec && done >= run.spec->training.steps) return "finished";
    return text("not finished; the log is ", human_time(folder.quiet_seconds), " old");
}

std::string checkpoints_of(const std::vector<std::int64_t>& steps) {
    if (steps.empty()) return "none";
    std::string out;
    for (std::int64_t i = 0; i < std::min(most_checkpoints, std::ssize(steps)); ++i)
        append(out, text(i > 0 ? ", " : "after step ", steps[static_cast<std::size_t>(i)]));
    const std::int64_t more = std::ssize(steps) - most_checkpoints;
    return more > 0 ? text(out, " and ", more, " older") : out;
}

void add_events(std::string& out, const std::vector<RunEvent>& events) {
    const std::int64_t count = std::ssize(events);
    const std::int64_t first = std::max<std::int64_t>(0, count - most_events);
    if (first > 0) add_line(out, "events", text("the newest of ", count));
    for (std::int64_t i = first; i < count; ++i) {
        const RunEvent& event = events[static_cast<std::size_t>(i)];
        add_line(out, text("step ", event.step), describe(event));
    }
}

}  // namespace

std::string to_summary(const ReportedRun& run, const RunFolderState& folder) {
    std::string out = text(run.label, run.spec ? ": " + run.spec->name : "", "\n");
    add_line(out, "state", state_of(run, folder));
    for (const Figure& figure : figures_of(run))
        add_line(out, figure.name, figure.value, figure.detail);
    add_line(out, "checkpoints", checkpoints_of(folder.checkpoints));
    add_events(out, run.log.events);
    return out;
}

}  // namespace gptrain
