#include "report/plan_table.h"

#include <functional>

#include "base/text.h"
#include "report/figures.h"

namespace gptrain {
namespace {

using ToText = std::function<std::string(double)>;

std::string bytes_text(double bytes) {
    return human_bytes(static_cast<std::int64_t>(bytes));
}

/// Adds a row if there is a measurement.
void add(std::vector<PlanRow>& rows, std::string name, double planned,
         std::optional<double> measured, const ToText& to_text) {
    if (!measured) return;
    rows.push_back({std::move(name), to_text(planned), to_text(*measured),
                    planned > 0 ? fixed(*measured / planned, 3) : ""});
}

/// At the logged speed.
std::optional<double> measured_mfu(const StepEstimate& estimate, const RunLog& log) {
    const auto speed = median(log, metric(&StepMetrics::tokens_per_s));
    if (!speed) return std::nullopt;
    return estimate.mfu * *speed / estimate.tokens_per_second;
}

void add_estimate(std::vector<PlanRow>& rows, const StepEstimate& estimate, const RunLog& log) {
    const std::size_t first = rows.size();
    const auto seconds = median(log, metric(&StepMetrics::step_time_s));
    add(rows, text("step, on ", estimate.world_size, " x ", estimate.hardware),
        estimate.step.seconds, seconds, seconds_text);
    add(rows, "throughput", estimate.tokens_per_second,
        median(log, metric(&StepMetrics::tokens_per_s)), speed_text);
    add(rows, "MFU", estimate.mfu, measured_mfu(estimate, log),
        [](double value) { return text(fixed(100 * value, 1), " %"); });
    if (estimate.calibrated) return;
    for (std::size_t row = first; row < rows.size(); ++row)
        rows[row].ratio = "rough";
}

}  // namespace

std::vector<PlanRow> plan_rows(const ReportedRun& run) {
    std::vector<PlanRow> rows;
    if (!run.planned || run.log.steps.empty()) return rows;
    const PlannedRun& planned = *run.planned;
    const StepMetrics& last = run.log.steps.back();
    const auto as_double = [](std::int64_t value) { return static_cast<double>(value); };
    add(rows, "memory of the largest rank", as_double(planned.memory_bytes),
        metric(&StepMetrics::memory_bytes)(last), bytes_text);
    for (const CommMetric& axis : planned.comm) {
        const CommMetric* measured = find_axis(last.comm, axis.axis);
        add(rows, text("sent in a step on ", axis.axis), as_double(axis.bytes),
            measured != nullptr ? std::optional(as_double(measured->bytes)) : std::nullopt,
            bytes_text);
    }
    if (planned.estimate) add_estimate(rows, *planned.estimate, run.log);
    return rows;
}

}  // namespace gptrain
