#include "report/run_charts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "comm/mesh.h"
#include "report/figures.h"

namespace gptrain {
namespace {

using Runs = std::span<const ReportedRun>;

/// If more stretches were done again, the last ones are drawn.
constexpr std::size_t most_stretches = 100;
/// If there are more tasks, the first ones have charts.
constexpr std::size_t most_tasks = 30;
/// If a measure has more numbers, the first ones have curves.
constexpr std::size_t most_numbers = 30;

Curve curve_of(const ReportedRun& run, std::size_t colour, const Metric& metric) {
    return {.label = run.label, .colour = colour, .points = points_of(run.log.steps, metric)};
}

void add_undone(Chart& chart, const ReportedRun& run, std::size_t colour, const Metric& metric) {
    const auto& undone = run.log.undone;
    const std::size_t first = undone.size() - std::min(undone.size(), most_stretches);
    for (std::size_t i = first; i < undone.size(); ++i) {
        chart.curves.push_back({.label = "",
                                .colour = colour,
                                .points = points_of(undone[i], metric),
                                .style = Curve::Style::pale,
                                .in_legend = false});
    }
}

bool same_values(const std::vector<Point>& a, const std::vector<Point>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Point& x, const Point& y) { return x.value == y.value; });
}

/// A curve of each run.
Chart chart_of(Runs runs, std::string title, std::string unit, const Metric& metric) {
    Chart chart = {.title = std::move(title), .unit = std::move(unit), .curves = {}};
    for (std::size_t i = 0; i < runs.size(); ++i) {
        chart.curves.push_back(curve_of(runs[i], i, metric));
        add_undone(chart, runs[i], i, metric);
    }
    if (runs.size() == 1) chart.curves.front().label.clear();  // the title has it
    return chart;
}

Chart steady(Chart chart) {
    chart.steady = true;
    return chart;
}

/// The mean since the last logged step, and pale behind it the loss of single steps where that is
/// another.
void add_loss(Chart& chart, const ReportedRun& run, std::size_t colour, bool alone) {
    const Metric loss = metric(&StepMetrics::loss);
    Curve mean = curve_of(run, colour, [](const StepMetrics& metrics) {
        return metrics.mean_loss ? metrics.mean_loss : metrics.loss;
    });
    Curve single = curve_of(run, colour, loss);
    if (alone) {
        mean.label = "training, mean";
        single.label = "training, single steps";
    }
    if (same_values(mean.points, single.points)) {
        mean.label = alone ? "training" : mean.label;
    } else {
        single.style = Curve::Style::pale;
        single.in_legend = alone;
        chart.curves.push_back(std::move(single));
    }
    chart.curves.push_back(std::move(mean));
    add_undone(chart, run, colour, loss);
}

Curve validation_curve(const ReportedRun& run, std::size_t colour) {
    return {.label = run.label,
            .colour = colour,
            .points = points_of(run.log.validations),
            .style = Curve::Style::dots};
}

/// One run has both losses in one chart, which shows whether it overfits.
void add_losses(std::vector<Chart>& charts, Runs runs) {
    const bool alone = runs.size() == 1;
    Chart training = {
        .title = alone ? "Loss" : "Training loss", .unit = "nats per token", .curves = {}};
    Chart validation = {.title = "Validation loss", .unit = "nats per token", .curves = {}};
    for (std::size_t i = 0; i < runs.size(); ++i) {
        add_loss(training, runs[i], i, alone);
        validation.curves.push_back(validation_curve(runs[i], i));
    }
    if (alone) {
        Curve& curve = training.curves.emplace_back(std::move(validation.curves.front()));
        curve.label = "validation";
        curve.colour = 1;
    }
    charts.push_back(std::move(training));
    if (!alone) charts.push_back(std::move(validation));
}

/// The means of a number of a measure.
template <class Line>
std::vector<Point> points_of(const std::vector<Line>& lines, const MeasureRow& row,
                             std::string_view label) {
    std::vector<Point> points;
    for (const Line& line : lines) {
        const MeasuredNumber* found = find_number(line.measures, row, label);
        points.push_back(
            {static_cast<double>(line.step), found ? found->value.mean() : std::nan("")});
    }
    return points;
}

/// A chart of each measure, with a curve of each of its first numbers and each run.
template <class Line>
void add_measures(std::vector<Chart>& charts, Runs runs, std::vector<Line> RunLog::*lines,
                  std::string_view prefix) {
    for (const MeasureRow& row : measure_rows) {
        Chart chart = {.title = title_of(prefix, row), .unit = std::string(row.unit), .curves = {}};
        std::vector<std::string> labels = labels_in(runs, lines, row);
        std::sort(labels.begin(), labels.end());
        for (const std::string& label : labels) {
            for (const ReportedRun& run : runs) {
                if (chart.curves.size() == most_numbers) break;
                chart.curves.push_back(
                    {.label = text(runs.size() > 1 ? run.label + ", " : "", label),
                     .colour = chart.curves.size(),
                     .points = points_of(run.log.*lines, row, label),
                     .style = prefix.empty() ? Curve::Style::line : Curve::Style::dots});
            }
        }
        if (!chart.curves.empty()) charts.push_back(std::move(chart));
    }
}

/// A chart of each task that a run has measured while it trained, with the task's first metric.
void add_tasks(std::vector<Chart>& charts, Runs runs) {
    std::set<std::string> seen;
    for (const ReportedRun& measured : runs) {
        for (const TaskEvaluation& evaluation : measured.log.tasks) {
            for (const TaskMetric& first : evaluation.metrics) {
                if (seen.size() == most_tasks || !seen.insert(first.task).second) continue;
                Chart chart = {.title = first.task, .unit = first.metric, .curves = {}};
                for (std::size_t i = 0; i < runs.size(); ++i) {
                    chart.curves.push_back(
                        {.label = runs.size() > 1 ? runs[i].label : "",
                         .colour = i,
                         .points = points_of(runs[i].log.tasks, first.task, first.metric)});
                }
                charts.push_back(std::move(chart));
            }
        }
    }
}

/// Seconds of a step on each axis that any run communicates on.
void add_communication(std::vector<Chart>& charts, Runs runs) {
    for (const Axis each : reported_axes) {
        const std::string_view axis = name_of(each);
        const Metric seconds = [axis](const StepMetrics& metrics) -> std::optional<double> {
            const CommMetric* comm = find_axis(metrics.comm, axis);
            return comm != nullptr ? comm->seconds : std::nullopt;
        };
        charts.push_back(
            steady(chart_of(runs, text("Communication on ", axis), "seconds of a step", seconds)));
    }
}

/// True if the metric has more than one value in all runs together.
bool varies(Runs runs, const Metric& metric) {
    Range range;
    for (const ReportedRun& run : runs) {
        for (const StepMetrics& step : run.log.steps) {
            if (const auto value = metric(step)) range.add(*value);
        }
    }
    return range.low < range.high;
}

std::optional<double> goodput_percent(const StepMetrics& metrics) {
    if (metrics.goodput.sum() <= 0) return std::nullopt;
    return 100 * metrics.goodput.goodput();
}

std::optional<double> memory_gib(const StepMetrics& metrics) {
    if (!metrics.memory_bytes) return std::nullopt;
    return static_cast<double>(*metrics.memory_bytes) / (1024.0 * 1024 * 1024);
}

}  // namespace

ChartFrame frame_of(Runs runs) {
    ChartFrame frame;
    for (const ReportedRun& run : runs) {
        const auto add = [&](const auto& lines) {
            if (lines.empty()) return;
            frame.steps.add(static_cast<double>(lines.front().step));
            frame.steps.add(static_cast<double>(lines.back().step));
        };
        add(run.log.steps);
        add(run.log.validations);
        add(run.log.tasks);
        for (const auto& stretch : run.log.undone)
            add(stretch);
    }
    if (frame.steps.low == frame.steps.high) {
        // A single step is drawn in the middle.
        --frame.steps.low;
        ++frame.steps.high;
    }
    for (const ReportedRun& run : runs) {
        for (const RunEvent& event : run.log.events) {
            const auto step = static_cast<double>(event.step);
            if (step < frame.steps.low || step > frame.steps.high) continue;
            frame.marks.push_back({step, is_fault(event),
                                   text(runs.size() > 1 ? run.label + ", " : "", "step ",
                                        event.step, ": ", describe(event))});
        }
    }
    return frame;
}

std::vector<Chart> charts_of(Runs runs) {
    std::vector<Chart> charts;
    add_losses(charts, runs);
    add_measures(charts, runs, &RunLog::steps, "");
    add_measures(charts, runs, &RunLog::validations, validation_prefix);
    add_tasks(charts, runs);
    charts.push_back(
        chart_of(runs, "Gradient norm", "before clipping", metric(&StepMetrics::grad_norm)));
    charts.push_back(chart_of(runs, "Learning rate", "", metric(&StepMetrics::lr)));
    charts.push_back(
        steady(chart_of(runs, "Throughput", "tokens/s", metric(&StepMetrics::tokens_per_s))));
    charts.push_back(
        steady(chart_of(runs, "Step time", "seconds", metric(&StepMetrics::step_time_s))));
    // For one run it looks like the throughput.
    if (runs.size() > 1) {
        charts.push_back(steady(chart_of(runs, "Speed of a device", "TFLOP/s",
                                         metric(&StepMetrics::tflops_per_device))));
    }
    if (varies(runs, memory_gib))
        charts.push_back(steady(chart_of(runs, "Memory", "GiB of the largest rank", memory_gib)));
    charts.push_back(chart_of(runs, "Goodput", "useful time, %", goodput_percent));
    if (varies(runs, metric(&StepMetrics::loss_scale)))
        charts.push_back(chart_of(runs, "Loss scale", "", metric(&StepMetrics::loss_scale)));
    if (varies(runs, metric(&StepMetrics::skipped_steps)))
        charts.push_back(chart_of(runs, "Skipped updates", "since the start",
                                  metric(&StepMetrics::skipped_steps)));
    if (varies(runs, metric(&StepMetrics::expert_slices)))
        charts.push_back(
            chart_of(runs, "Slices of experts", "in a step", metric(&StepMetrics::expert_slices)));
    if (varies(runs, metric(&StepMetrics::repeats)))
        charts.push_back(
            chart_of(runs, "Repeats of steps", "since the start", metric(&StepMetrics::repeats)));
    add_communication(charts, runs);
    return charts;
}

}  // namespace gptrain
